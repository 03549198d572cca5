"""Host zygotes for tests, and namespaces to start sandboxes in."""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import having_in_environment
from rawkernel import PACKAGE, Client, connection_info

STAND_IN = Path(__file__).with_name("shim_stand_in.py")
INSIDE, OUTSIDE = 1000, 231_000
# Hidden in namespaces: the interpreter may be in one, and the environment in the other.
HOMES = sorted({"/root", str(Path.home())})
NAMESPACES = ("user", "mnt", "net", "ipc", "uts")
_FLAGS = 0x10000000 | 0x20000 | 0x40000000 | 0x8000000 | 0x4000000


class HostZygote:
    """A host zygote; `ready` is its first message, None where the test does not wait for that."""

    def __init__(self, python, preload="", env=None, wait=True):
        self.python = str(python)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.directory = tempfile.TemporaryDirectory(prefix="hmz")
        self.path = Path(self.directory.name)
        os.chmod(self.path, 0o777)  # the sandbox's user works in it
        self.log = open(self.path / "log", "w+b")
        # A descriptor that is left open on purpose: none of the zygote's children may have it.
        self._leak = os.open("/etc/hostname", os.O_RDONLY)
        self.process = subprocess.Popen(
            [self.python, "-P", "-m", "himalia_kernel.zygote", "--control-fd", str(theirs.fileno())],
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(self.path),
                "PYTHONPATH": str(PACKAGE),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HIMALIA_PRELOAD": preload,
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=[theirs.fileno(), self._leak],
            start_new_session=True,
        )
        theirs.close()
        self.ready = self.receive() if wait else None

    def receive(self, timeout=30.0):
        """The next message; None at the end of the socket."""
        if not select.select([self.control], [], [], timeout)[0]:
            raise TimeoutError(f"nothing from the zygote; its log: {self.text()}")
        data = self.control.recv(65536)
        return json.loads(data) if data else None

    def spawn(self, descriptors=None, groups=(), id=None, op="spawn", **more):
        """Ask for a sandbox; returns the answer. `descriptors`: by name; `groups`: files to join."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptors = descriptors or {}
        enter = {"op": "enter", "fds": list(descriptors), **more}
        with ours, theirs:
            socket.send_fds(ours, [json.dumps({"op": "join"}).encode()], list(groups))
            socket.send_fds(ours, [json.dumps(enter).encode()], list(descriptors.values()))
            socket.send_fds(self.control, [json.dumps({"op": op, "id": id}).encode()], [theirs.fileno()])
            return self.receive()

    def text(self):
        """What the zygote and everything from it wrote to the log."""
        return (self.path / "log").read_text(errors="replace")

    def close(self):
        """End the zygote; its sandboxes end with their own sockets."""
        self.control.close()
        self.process.wait(30)
        self._end_kernels()
        os.close(self._leak)
        self.log.close()
        self.directory.cleanup()

    def _end_kernels(self):
        """Kernels outside of a process namespace outlive the stand-in for the shim."""
        for pid in having_in_environment("HOME", self.path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Sandbox:
    """A sandbox with the stand-in for the shim."""

    def __init__(self, zygote, descriptors=None, **more):
        self.zygote = zygote
        self.path = Path(tempfile.mkdtemp(dir=zygote.path))
        os.chmod(self.path, 0o777)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(str(self.path / "test"))
        os.chmod(self.path / "test", 0o666)
        listening.listen()
        argv = [zygote.python, str(STAND_IN), str(self.path / "test")]
        self.spawned = zygote.spawn({"log": zygote.log.fileno(), **(descriptors or {})}, id="it", argv=argv, **more)
        assert self.spawned["op"] == "spawned", (self.spawned, zygote.text())
        self.pid = self.spawned["pid"]
        listening.settimeout(30)
        try:
            self.shim, _ = listening.accept()
        except TimeoutError:
            raise AssertionError(f"the stand-in did not connect: {zygote.text()}") from None
        self.shim.settimeout(30)
        listening.close()

    def ask(self, **request):
        """Ask the stand-in."""
        self.shim.send(json.dumps(request).encode())
        return json.loads(self.shim.recv(65536))

    def start(self, name="k", **more):
        """Start a kernel; returns the zygote's answer and the connection info."""
        info = connection_info(self.path / name)
        (self.path / f"{name}.json").write_text(json.dumps(info))
        request = {
            "op": "start",
            "connection_file": str(self.path / f"{name}.json"),
            "env": {"HOME": str(self.path), "PATH": "/usr/bin:/bin"},
            "cwd": str(self.path),
            **more,
        }
        return self.ask(to_zygote=request), info

    def kernel(self, name="k", **more):
        """Start a kernel and connect to it."""
        answer, info = self.start(name, **more)
        assert answer["op"] == "started", answer
        client = Client(info)
        client.pid = answer["pid"]
        return client

    def end(self, status=0):
        """Let the stand-in exit, and return the zygote's report of it."""
        self.shim.send(json.dumps({"exit": status}).encode())
        self.shim.close()
        return self.zygote.receive()


def make_namespaces(*visible):
    """Descriptors of new namespaces by name: another user, no network but loopback, homes with only `visible`."""
    ready, go = os.pipe(), os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", "import zygotes; zygotes._be_the_namespaces()", str(ready[1]), str(go[0]), ":".join(HOMES), *map(str, visible)],
        pass_fds=[ready[1], go[0]],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
    )
    os.close(ready[1])
    try:
        assert os.read(ready[0], 1) == b"u"
        for kind in ("uid", "gid"):
            # Root of the sandbox for the mounts, then its user.
            Path(f"/proc/{child.pid}/{kind}_map").write_text(f"0 {OUTSIDE + 1} 1\n{INSIDE} {OUTSIDE} 1\n")
        os.write(go[1], b"m")
        assert os.read(ready[0], 1) == b"m", "the mounts failed"
        return {name: os.open(f"/proc/{child.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES}
    finally:
        child.kill()
        child.wait()
        for descriptor in (ready[0], *go):
            os.close(descriptor)


def _be_the_namespaces():
    import fcntl
    import struct

    libc = ctypes.CDLL(None, use_errno=True)

    def checked(result):
        if result != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    say, hear, homes, visible = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(":"), sys.argv[4:]
    checked(libc.unshare(_FLAGS))
    os.write(say, b"u")
    os.read(hear, 1)
    os.setresgid(0, 0, 0)
    checked(libc.mount(None, b"/", None, ctypes.c_ulong((1 << 18) | 16384), None))  # private
    opened = [os.open(path, os.O_PATH) for path in visible]
    os.setresuid(0, 0, 0)
    for home in homes:
        checked(libc.mount(b"none", home.encode(), b"tmpfs", ctypes.c_ulong(0), b"mode=755"))
    for path, descriptor in zip(visible, opened, strict=True):
        os.makedirs(path, exist_ok=True)
        source = f"/proc/self/fd/{descriptor}".encode()
        checked(libc.mount(source, path.encode(), None, ctypes.c_ulong(4096 | 16384), None))
    socket.sethostname("inside")
    lo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(lo, 0x8914, struct.pack("16sH14s", b"lo", 1, b""))
    os.write(say, b"m")
    os.read(hear, 1)
