"""The host zygote."""

import argparse
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time

from himalia_kernel import launcher, libc
from himalia_kernel.zygote import home, huge_pages, names, wire

# How long a sandbox's first process may take until its program runs, from the request on.
_ENTER_S = 10.0
# Bytes of the report of one start.
_REPORT_LIMIT = 16 * 1024


def main():
    """Serve until the control socket ends. In forked processes: do what they were forked for."""
    parser = argparse.ArgumentParser(prog="himalia_kernel.zygote")
    parser.add_argument("--control-fd", type=int, required=True)
    control = socket.socket(fileno=parser.parse_args().control_fd)
    control.setblocking(True)
    os.set_inheritable(control.fileno(), False)
    _end_with(control)
    # Nothing of the caller's but the socket and the standard streams.
    wire.close_all_but({0, 1, 2, control.fileno()})
    act = _prepare(control)
    # A forked process returns here from the depth of its parent's work, so that nothing of that stays on its stack.
    while act is not None:
        act = act()


def _end_with(control):
    """Let the kernel end this process at once when the other end of the socket is closed, whatever it is doing.

    While modules load nothing listens on the socket, and what they write to the home directory would come after a gateway
    that was killed, in a directory that the next gateway has removed. SIGIO, which is not caught, ends a process.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) | os.O_ASYNC)
    ended = select.poll()
    ended.register(control, 0)  # the end alone
    if ended.poll(0):
        sys.exit(0)  # it came before there was a signal for it


def _listen_to(control):
    """From here on the end of the socket is heard, and requests are no signals."""
    fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) & ~os.O_ASYNC)


def _prepare(control):
    """Make the embryo and report. Returns what to do next, or None."""
    from himalia_kernel import embryo, libraries, preload
    from himalia_kernel.fork import trial

    application, problem = launcher.choose()
    if application is None:
        wire.send(control, {"ready": False, "reason": problem})
        return None
    try:
        libraries.adapt()
        app, preloaded = embryo.make(application, preload.names())
        home.leave()
        trial.problem()  # kernels that are forked from here need not try it again
        names.take()
    except Exception as problem:
        wire.send(control, {"ready": False, "reason": f"{type(problem).__name__}: {problem}"})
        return None
    embryo.freeze()
    huge_pages.use()
    left_open = embryo.open_files({0, 1, 2, control.fileno(), *wire.of_libraries()})
    if left_open:
        wire.send(control, {"ready": False, "reason": f"preloading left open {', '.join(left_open)}"})
        return None
    libc.become_subreaper()
    _listen_to(control)
    hello = {
        "ready": True,
        "python": sys.version.split()[0],
        "preloaded": preloaded.loaded,
        "failed": preloaded.failed,
        "pid": os.getpid(),
        "threads": len(os.listdir("/proc/self/task")),
    }
    return HostZygote(control, app, hello).serve


class HostZygote:
    """Forks the first process of each sandbox and reports its end.

    The next request's process, the spare, is forked ahead: a fork takes longer than all that it does afterwards.
    """

    def __init__(self, control, app, hello):
        self._control = control
        self._app = app
        self._hello = hello
        self._spare = None
        self._births = {}  # requests under way, by the descriptor of their report
        self._spawned = set()  # pids that were reported and have not ended
        self._early = {}  # what ended while requests were under way: status by pid
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        self._poll = select.poll()

    def serve(self):
        """Answer requests until the end of the control socket. In a forked process: return what it does next."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)
        while True:
            act = self._fork_spare() if self._spare is None else None
            if act is not None:
                return act
            if self._hello is not None:
                wire.send(self._control, self._hello)
                self._hello = None
            ready = {number for number, _ in self._poll.poll(self._patience_ms())}
            # Before the reaping: a program that ran and has ended is reported in this order.
            for birth in [birth for number, birth in self._births.items() if number in ready]:
                self._hear(birth)
            self._end_late_births()
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._control.fileno() in ready:
                try:
                    request, descriptors = wire.receive(self._control)
                except wire.BadMessage as problem:
                    self._failed(None, "request", problem)
                    continue
                except ConnectionResetError:
                    return None
                if request is None:
                    return None
                self._hand_over(request, descriptors)
                wire.close(descriptors)

    def _fork_spare(self):
        """Fork the process that the next request gets. Returns what to do next, in the forked process only."""
        from himalia_kernel.zygote.spare import Spare

        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reading, writing = os.pipe()
        try:
            child = os.fork()
        except OSError:
            wire.close([ours.detach(), theirs.detach(), reading, writing])
            return None  # tried again later; a request meanwhile is refused
        if child == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            wire.close_all_but({0, 1, 2, theirs.fileno(), writing})
            self._control.detach()
            ours.detach()
            return Spare(theirs, writing, self._app).wait
        theirs.close()
        os.close(writing)
        self._spare = _Birth(child, ours, reading)
        return None

    def _hand_over(self, request, descriptors):
        """Give the caller's socket to the spare, which hears the rest from there."""
        name = request.get("id")
        if request.get("op") != "spawn":
            return self._failed(name, "request", "op: only spawn is known")
        if len(descriptors) != 1:
            return self._failed(name, "request", "descriptors: a socket is needed")
        birth, self._spare = self._spare, None
        if birth is None:
            return self._failed(name, "fork", "there is no process to spare")
        try:
            wire.send(birth.socket, {}, descriptors)
        except OSError as problem:
            os.close(birth.reading)
            return self._failed(name, "fork", problem)
        finally:
            birth.socket.close()
        birth.begin(name)
        self._births[birth.reading] = birth
        self._poll.register(birth.reading, select.POLLIN)

    def _hear(self, birth):
        """A start reports until its program runs, which closes the pipe."""
        data = os.read(birth.reading, _REPORT_LIMIT)
        birth.said += data
        if not data or len(birth.said) >= _REPORT_LIMIT:
            self._settle(birth, birth.report())

    def _settle(self, birth, report):
        self._poll.unregister(birth.reading)
        del self._births[birth.reading]
        os.close(birth.reading)
        pid = report.get("pid")
        if report.get("step") is None:
            self._spawned.add(pid)
            wire.send(self._control, {"op": "spawned", "id": birth.name, "pid": pid, "ms": _ms_since(birth.started)})
            if pid in self._early:
                self._ended(pid, self._early.pop(pid))
        else:
            for each in (birth.pid, pid):
                _kill(each)
            self._failed(birth.name, report["step"], report["error"])
        if not self._births:
            self._early.clear()

    def _end_late_births(self):
        now = time.perf_counter()
        for birth in [birth for birth in self._births.values() if now >= birth.deadline]:
            late = {"step": "exec", "error": f"the program did not run within {_ENTER_S:.0f} s"}
            self._settle(birth, birth.report() | late)

    def _patience_ms(self):
        """How long nothing is late yet; None without end."""
        first = min((birth.deadline for birth in self._births.values()), default=None)
        return None if first is None else max(0.0, 1000 * (first - time.perf_counter()) + 1)

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._spare is not None and pid == self._spare.pid:
                self._spare.close()
                self._spare = None
            elif pid in self._spawned:
                self._ended(pid, status)
            elif self._births:
                self._early[pid] = status

    def _ended(self, pid, status):
        self._spawned.remove(pid)
        wire.send(self._control, {"op": "exited", "pid": pid, "status": status})

    def _failed(self, name, step, problem):
        wire.send(self._control, {"op": "failed", "id": name, "step": step, "error": str(problem)})


class _Birth:
    """A forked process on its way into a sandbox."""

    def __init__(self, pid, socket, reading):
        self.pid = pid
        self.socket = socket
        self.reading = reading
        self.said = b""
        self.name = None
        self.started = self.deadline = 0.0

    def begin(self, name):
        """It was given the request of this name."""
        self.name = name
        self.started = time.perf_counter()
        self.deadline = self.started + _ENTER_S

    def report(self):
        """What it said: the pid of the first process, and the step that failed."""
        report = {}
        for line in self.said.splitlines():
            report |= json.loads(line)
        if "pid" not in report and "step" not in report:
            report |= {"step": "fork", "error": "the forked process ended without a word"}
        return report

    def close(self):
        """Forget a spare that has ended."""
        self.socket.close()
        os.close(self.reading)


def _ms_since(started):
    return round(1000 * (time.perf_counter() - started), 1)


def _kill(pid):
    """End a process that failed, which may have ended already but was not waited for."""
    if pid is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
