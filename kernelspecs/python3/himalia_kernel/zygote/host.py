"""The host zygote."""

import argparse
import json
import os
import select
import signal
import socket
import sys
import time

from himalia_kernel import launcher, libc
from himalia_kernel.zygote import wire

# How long a sandbox's first process may take until its program runs.
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
    # Nothing of the caller's but the socket and the standard streams.
    wire.close_all_but({0, 1, 2, control.fileno()})
    act = _prepare(control)
    # A forked process returns here from the depth of its parent's work, so that nothing of that stays on its stack.
    while act is not None:
        act = act()


def _prepare(control):
    """Make the embryo and report. Returns what to do next, or None."""
    from himalia_kernel import embryo, preload

    application, problem = launcher.choose()
    if application is None:
        wire.send(control, {"ready": False, "reason": problem})
        return None
    try:
        app, preloaded = embryo.make(application, preload.names())
    except Exception as problem:
        wire.send(control, {"ready": False, "reason": f"{type(problem).__name__}: {problem}"})
        return None
    embryo.freeze()
    left_open = embryo.open_files({0, 1, 2, control.fileno()})
    if left_open:
        wire.send(control, {"ready": False, "reason": f"preloading left open {', '.join(left_open)}"})
        return None
    libc.become_subreaper()
    host = HostZygote(control, app)
    wire.send(
        control,
        {
            "ready": True,
            "python": sys.version.split()[0],
            "preloaded": preloaded.loaded,
            "failed": preloaded.failed,
            "pid": os.getpid(),
            "threads": len(os.listdir("/proc/self/task")),
        },
    )
    return host.serve


class HostZygote:
    """Forks the first process of each sandbox and reports its end."""

    def __init__(self, control, app):
        self._control = control
        self._app = app
        self._spawned = set()  # pids that were reported and have not ended
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)

    def serve(self):
        """Answer requests until the end of the control socket. In a forked process: return what it does next."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._control.fileno() in ready:
                try:
                    request, descriptors = wire.receive(self._control)
                except wire.BadMessage as problem:
                    wire.send(self._control, {"op": "failed", "id": None, "step": "request", "error": str(problem)})
                    continue
                except ConnectionResetError:
                    return None
                if request is None:
                    return None
                act = self._spawn(request, descriptors)
                if act is not None:
                    return act

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._spawned:
                self._spawned.remove(pid)
                wire.send(self._control, {"op": "exited", "pid": pid, "status": status})

    def _spawn(self, request, descriptors):
        """Fork a sandbox's first process and answer. Returns what to do next, in the forked process only."""
        from himalia_kernel.zygote.enter import Entrance, Plan

        started = time.perf_counter()
        name = request.get("id")
        try:
            plan = Plan.parse(request, descriptors)
        except ValueError as problem:
            wire.close(descriptors)
            wire.send(self._control, {"op": "failed", "id": name, "step": "request", "error": str(problem)})
            return None
        reading, writing = os.pipe()
        try:
            child = os.fork()
        except OSError as problem:
            wire.close([reading, writing, *descriptors])
            wire.send(self._control, {"op": "failed", "id": name, "step": "fork", "error": str(problem)})
            return None
        if child == 0:
            self._control.detach()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return Entrance(plan, self._app, writing).enter
        wire.close([writing, *descriptors])
        report = _read_report(reading)
        os.close(reading)
        if report.get("step") is None:
            self._spawned.add(report["pid"])
            answer = {"op": "spawned", "id": name, "pid": report["pid"], "ms": _ms_since(started)}
        else:
            for pid in (child, report.get("pid")):
                _kill(pid)
            answer = {"op": "failed", "id": name, "step": report["step"], "error": report["error"]}
        wire.send(self._control, answer)
        return None


def _ms_since(started):
    return round(1000 * (time.perf_counter() - started), 1)


def _kill(pid):
    """End a process that failed, which may have ended already but was not waited for."""
    if pid is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def _read_report(reading):
    """What a start reported, until its program runs (which closes the pipe): its pid, and the step that failed."""
    said = b""
    deadline = time.monotonic() + _ENTER_S
    while len(said) < _REPORT_LIMIT:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            late = {"step": "exec", "error": f"the program did not run within {_ENTER_S:.0f} s"}
            return _joined(said) | late
        data = os.read(reading, _REPORT_LIMIT)
        if not data:
            break
        said += data
    report = _joined(said)
    if "pid" not in report and "step" not in report:
        report |= {"step": "fork", "error": "the forked process ended without a word"}
    return report


def _joined(said):
    report = {}
    for line in said.splitlines():
        report |= json.loads(line)
    return report
