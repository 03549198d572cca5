"""Tries, in processes that end with the trial, whether a forked process of this Python does what branches need.

A branch renews private parts of asyncio's event loop and of thread pools, which differ between versions of Python. So
before the first fork of a process, or in its zygote, the same steps are tried on a loop and on pools made for the
purpose, in a copy of the process and in a fork of that copy. Once it went well it is not tried again, also not in
processes that are forked later.
"""

import asyncio
import contextlib
import gc
import os
import select
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

from himalia_kernel.fork import descriptors, executors, loops

# How long the forked process, its parent and the whole trial may take. What fails most often hangs.
_BRANCH_S = 2.0
_COPY_S = 4.0
LIMIT_S = 5.0
_REPORT_LIMIT = 4096
_OK = "ok"

_passed = False


def problem():
    """Why this process cannot be forked, or None. To be called in the main thread."""
    global _passed
    if not _passed:
        said = _hear(LIMIT_S, _in_copy)
        if said != _OK:
            return said
        _passed = True
    return None


def fork_quietly():
    """`os.fork`, without the warning that there are threads, which is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _hear(seconds, act):
    """Do something in a forked process, which ends with it. Returns what it said about how it went."""
    reading, writing = os.pipe()
    try:
        pid = fork_quietly()
        if pid == 0:
            _say(writing, act)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return _said(reading, pid, seconds)


def _said(reading, pid, seconds):
    """The report of a forked process, which has ended then."""
    try:
        if select.select([reading], [], [], seconds)[0]:
            said = os.read(reading, _REPORT_LIMIT).decode(errors="replace")
            return said or "the trial of a fork ended without a word"
        os.kill(pid, signal.SIGKILL)
        return "the trial of a fork took too long"
    finally:
        os.close(reading)
        with contextlib.suppress(ChildProcessError):  # a thread of the user's waited for any child
            os.waitpid(pid, 0)


def _say(writing, act):
    """Do something, say on a pipe how it went, and end this process."""
    try:
        gc.disable()  # nothing of the user's is to be ended here
        act()
        said = _OK
    except BaseException as problem:
        said = f"{type(problem).__name__}: {problem}"
    try:
        os.write(writing, said.encode(errors="replace")[:_REPORT_LIMIT])
    finally:
        os._exit(0)


class _Forked(SystemExit):
    """Unwinds the loop of the forked process, as `BranchStarted` does."""


def _in_copy():
    """In the copy: be to the forked process what a kernel is to its branch."""
    asyncio._set_running_loop(None)
    signal.set_wakeup_fd(-1)
    loop = asyncio.SelectorEventLoop()
    asyncio.set_event_loop(loop)
    reading, writing = os.pipe()
    state = _State(loop)
    try:
        loop.run_until_complete(state.begin())
        loop.call_soon(state.fork)
        pid = loop.run_until_complete(state.forked)
    except _Forked:
        _say(writing, lambda: _in_branch(loop, state, writing))
    os.close(writing)
    said = _said(reading, pid, _COPY_S)
    if said != _OK:
        raise RuntimeError(said)
    loop.run_until_complete(state.check("the parent of a forked process"))


def _in_branch(loop, state, writing):
    """In the fork of the copy: the steps of a branch; then what came along is used."""
    loops.renew(loop, descriptors.sever(keep=(writing,)))
    executors.revive(loop, state.workers)
    if asyncio.get_event_loop() is not loop:
        raise RuntimeError("a forked process has another event loop")
    loop.run_until_complete(state.check("a forked process"))


class _State:
    """What is there before the fork, and must work after it in both processes."""

    def __init__(self, loop):
        self._loop = loop
        self._ticks = 0
        self._pool = ThreadPoolExecutor(1)
        self._task = None
        self.workers = []
        self.forked = loop.create_future()

    async def begin(self):
        """Let a task tick, and have an idle worker in a pool and in the loop's own."""
        self._task = self._loop.create_task(self._tick())
        await self._loop.run_in_executor(None, int)
        await self._loop.run_in_executor(self._pool, int)

    async def _tick(self):
        while True:
            self._ticks += 1
            await asyncio.sleep(0.001)

    def fork(self):
        """Called by the loop. In the forked process raises what unwinds it."""
        self.workers = executors.workers()
        pid = fork_quietly()
        if pid == 0:
            raise _Forked(1)
        self.forked.set_result(pid)

    async def check(self, where):
        """Raise RuntimeError if something does not work on; a hang is one, too."""
        steps = {
            "a task did not continue": self._ticks_on,
            "a thread pool did not work": lambda: self._loop.run_in_executor(self._pool, int),
            "asyncio.to_thread did not work": lambda: asyncio.to_thread(int),
            "a thread could not wake the event loop": self._woken,
        }
        end = self._loop.time() + _BRANCH_S
        for failure, step in steps.items():
            try:
                async with asyncio.timeout_at(end):
                    await step()
            except Exception as problem:
                raise RuntimeError(f"in {where} {failure} ({type(problem).__name__}: {problem})") from None

    async def _ticks_on(self):
        before = self._ticks
        while self._ticks == before:
            await asyncio.sleep(0.001)

    async def _woken(self):
        woken = self._loop.create_future()
        threading.Thread(target=self._loop.call_soon_threadsafe, args=(woken.set_result, None)).start()
        await woken
