"""`himalia connect`, and Jupyter's own client on its sockets."""

import queue
import signal
import subprocess
import threading
from pathlib import Path

from jupyter_client import BlockingKernelClient

DEADLINE = 60


class Connect:
    """A running `himalia connect`."""

    def __init__(self, gateway, session, runtime, *options, url=None):
        at = ("--url", url or gateway.url, "--token-file", str(gateway.token_file))
        self.process = subprocess.Popen(
            [*gateway.command(), "connect", session, *at, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"JUPYTER_RUNTIME_DIR": str(runtime)},
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.file = Path(line.strip())
        self.said = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said += line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        code = self.stop() if self.process.poll() is None else self.ended()
        assert code == 0, self.said

    def stop(self, how=signal.SIGINT):
        """Ctrl-C; the exit code."""
        self.process.send_signal(how)
        return self.ended()

    def ended(self):
        """The exit code, when it has ended by itself."""
        code = self.process.wait(DEADLINE)
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Client(BlockingKernelClient):
    """Jupyter's client, that is ready and closes what it opened."""

    def __init__(self, file, **more):
        super().__init__(connection_file=str(file), **more)
        self.load_connection_file()
        self.start_channels()
        self.wait_for_ready(timeout=DEADLINE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop_channels()
        self.context.destroy(linger=0)

    def run(self, code, **more):
        """Execute; (reply, the messages of iopub up to idle)."""
        sent = self.execute(code, **more)
        return self.reply_to(sent), self.published(sent)

    def reply_to(self, sent, channel="shell"):
        """The reply to a message; one to another message is a failure."""
        receive = getattr(self, f"get_{channel}_msg")
        reply = receive(timeout=DEADLINE)
        # `wait_for_ready` asks again each second, and returns at the first reply.
        while reply["msg_type"] == "kernel_info_reply" and reply["parent_header"]["msg_id"] != sent:
            reply = receive(timeout=DEADLINE)
        assert reply["parent_header"]["msg_id"] == sent, reply
        return reply["content"]

    def published(self, sent):
        """What the kernel published for a message, up to idle."""
        messages = []
        while True:
            message = self.get_iopub_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return messages
            messages.append(message)

    def is_silent(self):
        """Whether nothing waits on shell."""
        try:
            self.get_shell_msg(timeout=0.2)
        except queue.Empty:
            return True
        return False


def texts(messages):
    """What streams printed."""
    return "".join(message["content"]["text"] for message in messages if message["msg_type"] == "stream")
