"""A sandbox's zygote: sleeps until the shim wants a kernel."""

import gc
import os
import resource
import signal
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from himalia_kernel import adoption, entropy, environment, libc, plumbing
from himalia_kernel.zygote import wire
from himalia_kernel.zygote.enter import checked_rlimits

# A name of a file in an IPython profile that has a say in how a kernel starts.
_CONFIGURATION = ("*config.py", "*config.json", "startup/*.py", "startup/*.ipy")
_REPORT_LIMIT = 4096


class Sleeper:
    """Forks kernels that become children of the shim (of the nearest subreaper, or of PID 1).

    There are two of it: one becomes the first kernel that is asked for, so that nothing is forked between that request
    and its answer; the other one serves from then on.
    """

    def __init__(self, channel, app):
        self._channel = channel
        self._app = app

    def first(self, turn, telling, stay):
        """Returns what becomes a kernel at the first request. `turn`: a pipe that it closes when the other one's turn
        comes; `telling`: one that gives the other one's pid; `stay`: one to close when the kernel serves.
        """
        return lambda: self._wait_for_first(_First(self._channel, turn, telling, stay))

    def after(self, waiting):
        """Returns what serves when the pipe is closed."""
        return lambda: self._serve_after(waiting)

    def _wait_for_first(self, first):
        while True:
            request, descriptors = self._receive(first.say)
            if request is None:
                return None
            try:
                wanted = Start.parse(request, descriptors)
            except ValueError as problem:
                wire.close(descriptors)
                first.say({"op": "failed", "error": str(problem)})
                continue
            return lambda: wanted.become_kernel(self._app, first)

    def _serve_after(self, waiting):
        os.read(waiting, 1)
        os.close(waiting)
        return self.serve()

    def serve(self):
        """Answer requests until the end of the socket. In a forked kernel: return what it does next."""
        while True:
            request, descriptors = self._receive(self._answer)
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
                if self._is_between(writing):
                    os._exit(0)
                self._channel.detach()
                return lambda: wanted.become_kernel(self._app, _Later(writing))
            wire.close([writing, *descriptors])
            os.waitpid(between, 0)
            self._answer(_read_outcome(reading))
            os.close(reading)

    def _receive(self, answer):
        """The next request, whatever is sent before it; None at the end of the socket."""
        while True:
            try:
                return wire.receive(self._channel)
            except wire.BadMessage as problem:
                answer({"op": "failed", "error": str(problem)})
            except ConnectionResetError:
                return None, []

    def _is_between(self, writing):
        """The second fork: whether this is the process between the zygote and the one that was wanted."""
        try:
            return os.fork() != 0
        except OSError as problem:
            os.write(writing, f"{problem}".encode())
            os._exit(1)

    def _answer(self, content):
        wire.send(self._channel, content)


class _First:
    """What the first kernel answers the shim with, by itself."""

    def __init__(self, channel, turn, telling, stay):
        self._channel = channel
        self._turn = turn
        self._telling = telling
        self._stay = stay
        self._zygote = None

    @property
    def descriptors(self):
        """What it needs until the kernel serves."""
        needed = {self._channel.fileno(), self._turn, self._stay}
        return needed | ({self._telling} if self._zygote is None else set())

    def say(self, content):
        """Answer, and say which processes are the zygote from now on."""
        if self._zygote is None:
            said = os.read(self._telling, _REPORT_LIMIT)
            os.close(self._telling)
            self._zygote = [int(said)] if said.isdigit() else []
        still = [] if content["op"] == "started" else [os.getpid()]
        wire.send(self._channel, content | {"zygote": still + self._zygote})

    def started(self):
        """It is about to open its channels. The other one's turn begins."""
        self.say({"op": "started", "pid": os.getpid()})
        self._channel.close()
        os.close(self._turn)

    def serves(self):
        """Its channels are open."""
        os.close(self._stay)

    def failed(self, problem):
        """The process ends; the other one's turn begins with that."""
        self.say({"op": "failed", "error": problem[:_REPORT_LIMIT]})


class _Later:
    """What a kernel that the zygote forked tells it."""

    def __init__(self, writing):
        self._writing = writing
        self.descriptors = {writing}

    def started(self):
        """It is about to open its channels."""
        os.write(self._writing, str(os.getpid()).encode())
        os.close(self._writing)

    def serves(self):
        """Its channels are open; nothing waits for that."""

    def failed(self, problem):
        """The process ends."""
        os.write(self._writing, problem.encode()[:_REPORT_LIMIT])


def _read_outcome(reading):
    """The kernel says its pid when it is about to open its channels, or else what went wrong."""
    said = b""
    while data := os.read(reading, _REPORT_LIMIT):
        said += data
    if said.isdigit():
        return {"op": "started", "pid": int(said)}
    return {"op": "failed", "error": said.decode(errors="replace") or "the forked process ended without a word"}


@dataclass
class Start:
    """A start request that was understood."""

    connection_file: str
    env: dict
    cwd: str | None
    rlimits: dict
    oom_score_adj: int | None
    parent_pid: int | None
    output: tuple  # descriptors of standard output and error

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
            self._settle(app, report.descriptors)
            report.started()
        except BaseException as problem:
            report.failed(f"{type(problem).__name__}: {problem}")
            os._exit(1)
        try:
            plumbing.plumb(app, self.connection_file)
            report.serves()
        except BaseException:
            os.write(2, traceback.format_exc().encode())
            os._exit(1)
        app.start()
        sys.exit(0)

    def _settle(self, app, kept):
        adoption.end_with(self.parent_pid)
        os.setsid()
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        for number, source in ((0, null), (1, self.output[0]), (2, self.output[1])):
            os.dup2(source, number)
        wire.close_all_but({0, 1, 2, *kept})
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
    if not os.path.isdir(profile):  # as at most starts, which need not look further
        return None
    for pattern in _CONFIGURATION:
        for path in profile.glob(pattern):
            return path
    return None
