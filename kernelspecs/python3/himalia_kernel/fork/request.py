"""In the parent: answers a fork request. Whatever fails, the parent continues unchanged."""

import gc
import io
import json
import os
import select
import signal
import stat
import sys
import time
from dataclasses import dataclass
from itertools import pairwise

from himalia_kernel import adoption, environment, selftest
from himalia_kernel.errand import Errand
from himalia_kernel.fork import executors, hazards, native, trial
from himalia_kernel.fork.branch import BranchStarted
from himalia_kernel.refusal import error

POLICIES = ("strict", "report")
MAX_WAIT_MS = 600_000
# How long the second fork, and then the branch's plumbing, may take. With the trial together less than what the shim waits.
_SECOND_FORK_S = 4.0
_READY_S = 5.0
# The branch says `{"pid"}`, then `{"ready_ms"}`; instead of either `{"error"}`. Lines of JSON, together at most:
_REPORT_LIMIT = 4096
_WRITERS = frozenset((io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper))


@dataclass
class Wanted:
    """A fork request that was understood."""

    connection_file: str
    policy: str
    wait_s: float
    parent_pid: int | None
    env: dict
    unset: list
    cwd: str | None

    @classmethod
    def parse(cls, content):
        """Read the content of a request; ValueError names the field that is wrong."""
        path = content.get("connection_file")
        if not isinstance(path, str):
            raise ValueError("connection_file: a path is needed")
        policy = content.get("policy", "report")
        if policy not in POLICIES:
            raise ValueError(f"policy: one of {', '.join(POLICIES)} is needed")
        wait_ms = content.get("wait_ms", 0)
        if not isinstance(wait_ms, int) or not 0 <= wait_ms <= MAX_WAIT_MS:
            raise ValueError(f"wait_ms: a number from 0 to {MAX_WAIT_MS} is needed")
        return cls(path, policy, wait_ms / 1000, adoption.checked(content), *environment.checked(content))


def handle(kernel, content, answer):
    """Fork the kernel as soon as it is idle, and answer."""
    try:
        wanted = Wanted.parse(content)
    except ValueError as problem:
        answer(error("ValueError", problem, hazards=[]))
        return
    problem = selftest.fork_problem()
    if problem is not None:
        answer(error("Unsupported", problem, hazards=[]))
        return
    started = time.perf_counter()

    def fork():
        try:
            _fork(kernel, wanted, answer, started)
        except Exception as problem:  # in the parent; in the branch none gets here
            answer(error(type(problem).__name__, problem, hazards=[]))

    Errand(kernel, fork, lambda reason: answer(error("KernelBusy", reason, hazards=[])), wanted.wait_s)


def _fork(kernel, wanted, answer, started):
    times = [started, time.perf_counter()]
    found = hazards.survey(kernel.parent)
    if not _refused(found, wanted, answer):
        _flush_files()
        native.pause_openmp()
        found += native.hazards()
        if not _refused(found, wanted, answer):
            problem = trial.problem()
            if problem is not None:
                answer(error("Unsupported", problem, hazards=[]))
                return
            times.append(time.perf_counter())
            reading, pid, said = _double_fork(wanted)
            times.append(time.perf_counter())
            names = ("wait", "prepare", "fork")
            ms = {name: round(1000 * (b - a), 1) for name, (a, b) in zip(names, pairwise(times), strict=True)}
            done = {"status": "ok", "pid": pid, "hazards": found, "ms": ms}
            kernel.control_thread.io_loop.add_callback(_Watch, kernel, reading, said, done, answer)


def _refused(found, wanted, answer):
    """Refuse if a hazard is grave enough; says whether that was done."""
    grave = found if wanted.policy == "strict" else [hazard for hazard in found if hazard["severity"] == "refuse"]
    if not grave:
        return False
    reasons = ", ".join(dict.fromkeys(f"{hazard['kind']}: {hazard['detail']}" for hazard in grave))
    answer(error("ForkHazard", reasons, hazards=found))
    return True


def _double_fork(wanted):
    """Fork twice. In the branch this raises `BranchStarted`.

    Returns, in the parent, the end of the pipe that the branch reports to, its pid, and what it said beyond that.
    """
    workers = executors.workers()
    reading, writing = os.pipe()
    try:
        between = trial.fork_quietly()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if between == 0:
        branch = BranchStarted(wanted, writing, workers)
        try:
            if trial.fork_quietly() != 0:
                os._exit(0)
            os.setsid()
            os.close(reading)
            branch.tell({"pid": os.getpid()})
        except BaseException as problem:
            branch.fail(problem)
        raise branch
    os.close(writing)
    try:
        pid, said = _first_words(reading)
    except Exception:
        os.close(reading)
        os.kill(between, signal.SIGKILL)
        raise
    finally:
        try:
            os.waitpid(between, 0)
        except ChildProcessError:
            pass  # a thread of the user's waited for any child
    return reading, pid, said


def _first_words(reading):
    """The branch's pid, and what it said after that."""
    ready, _, _ = select.select([reading], [], [], _SECOND_FORK_S)
    said = os.read(reading, _REPORT_LIMIT) if ready else b""
    if not said:
        raise ChildProcessError("the forked process did not fork again")
    line, _, rest = said.partition(b"\n")
    content = json.loads(line)
    if "error" in content:
        raise ChildProcessError(content["error"])
    return content["pid"], rest


class _Watch:
    """In the control thread: waits until the branch is ready, has failed or is late, and answers."""

    def __init__(self, kernel, reading, said, done, answer):
        self._loop = kernel.control_thread.io_loop.asyncio_loop
        self._reading = reading
        self._done = done
        self._answer = answer
        self._started = time.perf_counter()
        self._said = said
        self._loop.add_reader(reading, self._read)
        self._timer = self._loop.call_later(_READY_S, self._late)

    def _read(self):
        """Read on; the branch closes its end after its last word."""
        data = os.read(self._reading, _REPORT_LIMIT)
        self._said += data
        if data and len(self._said) < _REPORT_LIMIT:
            return
        self._close()
        said = json.loads(self._said) if self._said else {"error": "the branch ended before it was ready"}
        if "error" in said:
            self._answer(error("BranchFailed", said["error"], hazards=self._done["hazards"]))
        else:
            self._done["ms"] |= {
                "settle": said["ready_ms"],
                "ready": round(1000 * (time.perf_counter() - self._started), 1),
            }
            self._answer(self._done)

    def _late(self):
        self._close()
        try:
            os.kill(self._done["pid"], signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._answer(error("BranchFailed", "the branch was not ready in time", hazards=self._done["hazards"]))

    def _close(self):
        self._timer.cancel()
        self._loop.remove_reader(self._reading)
        os.close(self._reading)


def _flush_files():
    """Write out what is buffered for files, so that parent and branch do not both do it later.

    Finding the file objects means looking at all objects, which is done only if a file is open for writing.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if not any(_is_written_file(int(number)) for number in os.listdir("/proc/self/fd")):
        return
    for thing in gc.get_objects():
        # By the exact type: isinstance asks proxies for their class, and some import a library when they are asked.
        if type(thing) in _WRITERS and not thing.closed:
            try:
                thing.flush()
            except (OSError, ValueError):
                continue  # its own user will learn of it


def _is_written_file(number):
    try:
        if number <= 2 or not stat.S_ISREG(os.fstat(number).st_mode):
            return False
        with open(f"/proc/self/fdinfo/{number}") as file:
            flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
        return flags & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False
