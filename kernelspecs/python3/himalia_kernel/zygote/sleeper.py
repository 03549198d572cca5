"""A sandbox's zygote: sleeps until the shim wants a kernel."""

import gc
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

from himalia_kernel import adoption, entropy, environment, libc, plumbing
from himalia_kernel.zygote import wire
from himalia_kernel.zygote.enter import checked_rlimits

# A name of a file in an IPython profile that has a say in how a kernel starts.
_CONFIGURATION = ("*config.py", "*config.json", "startup/*.py", "startup/*.ipy")
_REPORT_LIMIT = 4096


class Sleeper:
    """Forks kernels that become children of the shim (of the nearest subreaper, or of PID 1)."""

    def __init__(self, channel, app):
        self._channel = channel
        self._app = app

    def serve(self):
        """Answer requests until the end of the socket. In a forked kernel: return what it does next."""
        while True:
            try:
                request, descriptors = wire.receive(self._channel)
            except wire.BadMessage as problem:
                self._answer({"op": "failed", "error": str(problem)})
                continue
            except ConnectionResetError:
                return None
            if request is None:
                return None
            try:
                wanted = Start.parse(request, descriptors)
                reading, writing = os.pipe()
                between = os.fork()
            except (ValueError, OSError) as problem:
                wire.close(descriptors)
                self._answer({"op": "failed", "error": str(problem)})
                continue
            if between == 0:
                if self._is_not_the_kernel(writing):
                    os._exit(0)
                self._channel.detach()
                return lambda: wanted.become_kernel(self._app, writing)
            wire.close([writing, *descriptors])
            os.waitpid(between, 0)
            self._answer(_read_outcome(reading))
            os.close(reading)

    def _is_not_the_kernel(self, writing):
        """The second fork: whether this is the process between the zygote and the kernel."""
        try:
            return os.fork() != 0
        except OSError as problem:
            os.write(writing, f"{problem}".encode())
            os._exit(1)

    def _answer(self, content):
        wire.send(self._channel, content)


def _read_outcome(reading):
    """The kernel says its pid when it is about to open its channels, or else what went wrong."""
    said = b""
    while data := os.read(reading, _REPORT_LIMIT):
        said += data
    if said.isdigit():
        return {"op": "started", "pid": int(said)}
    return {"op": "failed", "error": said.decode(errors="replace") or "the forked process ended without a word"}


class Start:
    """A start request that was understood."""

    def __init__(self, connection_file, env, cwd, rlimits, oom_score_adj, parent_pid, output):
        self.connection_file = connection_file
        self.env = env
        self.cwd = cwd
        self.rlimits = rlimits
        self.oom_score_adj = oom_score_adj
        self.parent_pid = parent_pid
        self.output = output

    @classmethod
    def parse(cls, request, descriptors):
        """Read a request; ValueError names the field that is wrong."""
        if request.get("op") != "start":
            raise ValueError("op: only start is known")
        if len(descriptors) != 2:
            raise ValueError("descriptors: stdout and stderr are needed")
        path = request.get("connection_file")
        if not isinstance(path, str):
            raise ValueError("connection_file: a path is needed")
        score = request.get("oom_score_adj")
        if score is not None and not isinstance(score, int):
            raise ValueError("oom_score_adj: a number is needed")
        env, _, cwd = environment.checked(request)
        configuration = _own_configuration(env)
        if configuration is not None:
            raise ValueError(f"{configuration} is read at the start of a kernel: it needs a cold start")
        limits = checked_rlimits(request.get("rlimits"))
        return cls(path, env, cwd, limits, score, adoption.checked(request), tuple(descriptors))

    def become_kernel(self, app, report):
        """Be the kernel until it is shut down."""
        try:
            self._settle(app, report)
            os.write(report, str(os.getpid()).encode())
            os.close(report)
        except BaseException as problem:
            os.write(report, f"{type(problem).__name__}: {problem}".encode()[:_REPORT_LIMIT])
            os._exit(1)
        try:
            plumbing.plumb(app, self.connection_file)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            os._exit(1)
        app.start()
        sys.exit(0)

    def _settle(self, app, report):
        adoption.end_with(self.parent_pid)
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        for number, source in ((0, null), (1, self.output[0]), (2, self.output[1])):
            os.dup2(source, number)
        wire.close_all_but({0, 1, 2, report})
        libc.become_dumpable()
        if self.oom_score_adj is not None:
            Path("/proc/self/oom_score_adj").write_text(str(self.oom_score_adj))
        for limit, pair in self.rlimits.items():
            resource.setrlimit(limit, pair)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        gc.enable()
        environment.replace(app, self.env, self.cwd)
        environment.start_directory_history(app)
        environment.move_profile(app)
        entropy.reseed()
        if not Path(self.connection_file).is_file():
            raise FileNotFoundError(self.connection_file)


def _own_configuration(env):
    """A file of the session's own IPython profile that a cold start would read, or None."""
    home = env.get("IPYTHONDIR") or os.path.join(env.get("HOME", "/"), ".ipython")
    profile = Path(home) / "profile_default"
    for pattern in _CONFIGURATION:
        for path in profile.glob(pattern):
            return path
    return None
