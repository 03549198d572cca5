"""A kernel process started over ipc, with plain ZeroMQ clients that read on demand."""

import json
import os
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import zmq
from jupyter_client.session import Session

PACKAGE = Path(__file__).resolve().parents[3] / "kernelspecs" / "python3"


def connection_info(prefix):
    """What a connection file says: sockets at `<prefix>-1` to `-5`, and a new key."""
    return {
        "transport": "ipc",
        "ip": str(prefix),
        "key": uuid.uuid4().hex,
        "signature_scheme": "hmac-sha256",
        "kernel_name": "python3",
        **{f"{name}_port": n for n, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)},
    }


class Client:
    """The sockets of one client of a kernel that is already running."""

    def __init__(self, info, *, subscribe=True):
        self.info = info
        self.context = zmq.Context()
        self.session = Session(key=info["key"].encode())
        # The kernel sends its questions to the one who asked, by this name.
        identity = uuid.uuid4().hex.encode()
        self.shell = self._connect(zmq.DEALER, "shell", identity=identity)
        self.stdin = self._connect(zmq.DEALER, "stdin", identity=identity)
        self.control = self._connect(zmq.DEALER, "control")
        self.iopub = None
        if subscribe:
            self.subscribe()
        self.request("kernel_info_request", {}, timeout=60)

    def _connect(self, kind, name, **options):
        socket = self.context.socket(kind)
        socket.linger = 0
        socket.reconnect_ivl = 5
        for option, value in options.items():
            setattr(socket, option, value)
        socket.connect(f"ipc://{self.info['ip']}-{self.info[f'{name}_port']}")
        return socket

    def subscribe(self, rcvhwm=20):
        """Subscribe to IOPub; the small `rcvhwm` makes a reader that stops reading felt at once."""
        self.iopub = self._connect(zmq.SUB, "iopub", rcvhwm=rcvhwm, subscribe=b"")

    def send(self, kind, content, channel="shell"):
        """Send a request; returns its msg_id."""
        return self.session.send(getattr(self, channel), kind, content)["header"]["msg_id"]

    def receive(self, channel, timeout=30.0):
        """The next message of a channel; TimeoutError after `timeout` seconds."""
        socket = getattr(self, channel)
        if not socket.poll(timeout * 1000):
            raise TimeoutError(f"nothing on {channel} within {timeout} s; stderr: {self.stderr()}")
        frames = socket.recv_multipart()
        _, frames = self.session.feed_identities(frames)
        return self.session.deserialize(frames, content=True)

    def reply(self, msg_id, channel="shell", timeout=30.0):
        """The content of the reply to `msg_id`."""
        end = time.monotonic() + timeout
        while True:
            message = self.receive(channel, max(0.0, end - time.monotonic()))
            if message["parent_header"].get("msg_id") == msg_id:
                return message["content"]

    def request(self, kind, content, channel="shell", timeout=30.0):
        """Send a request and return the content of its reply."""
        return self.reply(self.send(kind, content, channel), channel, timeout)

    def execute(self, code, allow_stdin=False, stop_on_error=True):
        """Send code; returns the msg_id. With `stop_on_error` a kernel aborts what arrives right after an error."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": allow_stdin}
        return self.send("execute_request", {**content, "stop_on_error": stop_on_error})

    def outputs(self, msg_id, timeout=60.0):
        """Yield the IOPub messages of a request until it is idle."""
        while True:
            message = self.receive("iopub", timeout)
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
            yield message

    def run(self, code, timeout=60.0):
        """Run code; returns (reply content, text of stdout, all messages)."""
        msg_id = self.execute(code)
        messages = list(self.outputs(msg_id, timeout))
        return self.reply(msg_id), text_of(messages), messages
    def stderr(self):
        """Unknown here."""
        return ""

    def disconnect(self):
        """Close the sockets."""
        self.context.destroy(linger=0)


class RawKernel(Client):
    """`python -m himalia_kernel` and the sockets of one client. `before` gets the work directory before the start."""

    def __init__(self, python, *, argv=("-m", "himalia_kernel"), env=None, subscribe=True, before=None):
        self.directory = tempfile.TemporaryDirectory(prefix="hmk")
        info = connection_info(f"{self.directory.name}/k")
        connection = Path(self.directory.name) / "kernel.json"
        connection.write_text(json.dumps(info))
        if before is not None:
            before(Path(self.directory.name))
        self.stderr_path = Path(self.directory.name) / "stderr"
        self.stdout_path = Path(self.directory.name) / "stdout"
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": self.directory.name,
            "PYTHONPATH": str(PACKAGE),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(env or {}),
        }
        with self.stderr_path.open("wb") as stderr, self.stdout_path.open("wb") as stdout:
            self.process = subprocess.Popen(
                [str(python), *argv, "-f", str(connection)],
                env=environment,
                cwd=self.directory.name,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        super().__init__(info, subscribe=subscribe)

    def interrupt(self):
        """SIGINT, as the shim sends it."""
        self.process.send_signal(signal.SIGINT)

    def rss_mb(self):
        """Resident memory of the kernel now, MB."""
        return self._status("VmRSS")

    def peak_rss_mb(self):
        """Highest resident memory of the kernel so far, MB."""
        return self._status("VmHWM")

    def _status(self, field):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise LookupError(field)

    def stderr(self):
        """What the kernel process wrote to its own stderr."""
        return self.stderr_path.read_text(errors="replace")

    def close(self):
        """Kill the kernel's process group and close the sockets."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.context.destroy(linger=0)
        self.directory.cleanup()


def text_of(messages, name="stdout"):
    """The text of one stream in a list of messages."""
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream" and m["content"]["name"] == name)
