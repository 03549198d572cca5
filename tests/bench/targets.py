"""What is measured: a kernel with nothing in front (`direct`), Himalia, and its peers, each on loopback."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

from clients import Direct, WebSocket

HERE = Path(__file__).resolve().parent
TOKEN = "bench-token"
TICK = os.sysconf("SC_CLK_TCK")


def wait_until(condition, what, seconds=60):
    """Poll a condition; a bench set-up that does not start is an error, not a slow figure."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)
    return value


def write_kernelspec(root):
    """A Jupyter path that offers the `fake` kernel."""
    folder = Path(root, "kernels", "fake")
    folder.mkdir(parents=True)
    argv = [sys.executable, str(HERE / "fake_kernel.py"), "-f", "{connection_file}"]
    folder.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "fake", "language": "fake"}))


def cpu_seconds(pids):
    """User and system time of processes, by the kernel's accounting (10 ms ticks)."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def children(pid, name=""):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid and name in stat.partition("(")[2].rpartition(")")[0]:
                found.append(int(entry.name))
    return found


class DirectTarget:
    name = "direct"

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="hb-")
        connection = {f"{name}_port": i for i, name in enumerate(["shell", "iopub", "stdin", "control", "hb"], 1)}
        connection |= {"transport": "ipc", "ip": f"{self.folder}/k", "key": uuid.uuid4().hex}
        connection["signature_scheme"] = "hmac-sha256"
        path = Path(self.folder, "connection.json")
        path.write_text(json.dumps(connection))
        self.kernel = subprocess.Popen([sys.executable, str(HERE / "fake_kernel.py"), "-f", str(path)])
        wait_until(Path(f"{self.folder}/k-2").exists, "the fake kernel's iopub socket")
        self.client = Direct(connection)
        return self

    def cpu(self):
        return 0.0

    def interrupt(self):
        self.kernel.send_signal(signal.SIGINT)

    def __exit__(self, *_):
        self.kernel.kill()
        self.kernel.wait()
        shutil.rmtree(self.folder)


class Gateway:
    """A gateway process in a folder of its own, with one WebSocket to one `fake` kernel."""

    quick_ack = False

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="hb-")
        write_kernelspec(f"{self.folder}/jupyter")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": self.folder,
            "JUPYTER_PATH": f"{self.folder}/jupyter",
            "LANG": "C.UTF-8",
        }
        self.log = open(f"{self.folder}/log", "w+")
        try:
            self.start()
            self.first_client()
        except BaseException:
            sys.stderr.write(Path(self.folder, "log").read_text()[-4000:])
            self.__exit__()
            raise
        return self

    def first_client(self):
        self.kernel_id = self.call("POST", "/api/kernels", {"name": "fake"})["id"]
        self.client = self.connect(self.kernel_id)
        self.client.execute("pass")

    def connect(self, kernel_id):
        return WebSocket("127.0.0.1", self.port, kernel_id, TOKEN, self.quick_ack)

    def spawn(self, argv):
        self.process = subprocess.Popen(argv, env=self.env, cwd=self.folder, stdout=self.log, stderr=self.log)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        req = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        req.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(req, timeout=60) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def answers(self, path):
        try:
            self.call("GET", path)
        except OSError:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}") from None
            return False
        return True

    def pids(self):
        return [self.process.pid]

    def cpu(self):
        return cpu_seconds(self.pids())

    def resident(self):
        """MiB of the gateway alone."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024

    def interrupt(self):
        self.call("POST", f"/api/kernels/{self.kernel_id}/interrupt")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __exit__(self, *_):
        if hasattr(self, "process"):
            kernels = children(self.process.pid)
            self.stop()
            for pid in kernels:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Himalia(Gateway):
    name = "himalia"
    # As its peers: plain processes, which may read the fake kernel where it lies.
    options = ["--isolation", "none", "--max-kernels", "200"]

    def start(self, binary=None):
        self.binary = binary or os.environ.get("HIMALIA_BIN", str(HERE.parents[1] / "target/release/himalia"))
        self.serve()

    def serve(self):
        self.log.seek(0)
        self.log.truncate()
        argv = [self.binary, "serve", "--listen", "127.0.0.1:0", "--token", TOKEN, "--max-message", "256MiB"]
        self.spawn([*argv, "--data-dir", f"{self.folder}/data", "--on-interrupt", "stop", *self.options])
        text = wait_until(self.announced, "himalia's address")
        self.port = int(text)
        wait_until(lambda: self.answers("/healthz"), "himalia to be ready")

    def announced(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"himalia ended with {self.process.returncode}")
        found = re.search(r"http://127\.0\.0\.1:(\d+)", Path(self.folder, "log").read_text())
        return found and found.group(1)

    def pids(self):
        return [self.process.pid, *children(self.process.pid, "himalia-shim")]


class JupyterServer(Gateway):
    name = "jupyter_server"
    module, flags = "jupyter_server", ["--ServerApp.disable_check_xsrf=True"]
    token, socket_class = "--IdentityProvider.token", "ZMQChannelsWebsocketConnection"

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        argv = [sys.executable, "-m", self.module, f"{self.token}={TOKEN}", f"--{self.app}.port={self.port}"]
        self.spawn([*argv, f"--{self.app}.allow_root=True", f"--{self.socket_class}.limit_rate=False", *self.flags])
        wait_until(lambda: self.answers("/api/kernels"), f"{self.name} to be ready")

    app = "ServerApp"


class KernelGateway(JupyterServer):
    name = "kernel_gateway"
    module, app, token = "kernel_gateway", "KernelGatewayApp", "--KernelGatewayApp.auth_token"
    flags = ["--JupyterWebsocketPersonality.list_kernels=True"]


class QuickAck:
    """The same peer, measured by a client that acknowledges each TCP segment at once."""

    def __init__(self, peer):
        self.peer = peer
        self.name = peer.name + "+quickack"

    def __call__(self):
        target = self.peer()
        target.quick_ack, target.name = True, self.name
        return target
