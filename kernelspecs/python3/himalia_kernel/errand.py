"""Runs something in the main thread of a kernel when no cell runs, on behalf of the control thread."""

import asyncio
import os
import sys
import threading
import time

# How long after its deadline an errand continues if the main thread has merely not come to it, seconds.
_GRACE_S = 1.0
_LOOK_AGAIN_S = 0.002
_LOOP_MODULES = ("asyncio.", "tornado.", "nest_asyncio", "ipykernel.kernelapp", "himalia_kernel.")


class Errand:
    """Calls `action()` in the main thread while the kernel is idle, or `refuse(reason)`: one of them, once.

    A kernel is busy from the moment it has received a request on its shell channel until it has answered, so a cell
    that awaits something counts. `wait_s` is how long a busy kernel is waited for; the main thread may stand still in
    a cell for all that time, then it is the control thread that refuses.
    """

    def __init__(self, kernel, action, refuse, wait_s):
        self._kernel = kernel
        self._action = action
        self._refuse = refuse
        self._deadline = time.monotonic() + wait_s
        self._open = threading.Lock()
        self._main_loop = kernel.io_loop.asyncio_loop
        if wait_s <= 0 and kernel._main_asyncio_lock.locked():
            self._refuse("a cell is running")
            return
        self._main_loop.call_soon_threadsafe(self._attempt)
        kernel.control_thread.io_loop.call_later(max(wait_s, _GRACE_S), self._give_up)

    def _claim(self):
        return self._open.acquire(blocking=False)

    def _give_up(self):
        if self._claim():
            self._refuse("a cell is running")

    def _attempt(self):
        if self._open.locked():
            return
        reason = busy(self._kernel)
        if reason is None:
            if self._claim():
                self._action()
        elif time.monotonic() >= self._deadline:
            if self._claim():
                self._refuse(reason)
        else:
            self._main_loop.call_later(_LOOK_AGAIN_S, self._attempt)


def busy(kernel):
    """Why the kernel is not idle, or None. For the main thread, called from a callback of its event loop."""
    if kernel._main_asyncio_lock.locked() or kernel._aborting:
        return "a cell is running"
    for subshell in subshells(kernel):
        if subshell.asyncio_lock.locked() or subshell.aborting:
            return "a cell is running in a subshell"
    for task in asyncio.all_tasks(kernel.io_loop.asyncio_loop):
        if _is_dispatch(task):
            return "a request is being handled"
    return _nesting()


def subshells(kernel):
    """The threads of the kernel's subshells."""
    manager = kernel.shell_channel_thread._manager
    if manager is None:
        return []
    with manager._lock_cache:
        return list(manager._cache.values())


def _is_dispatch(task):
    """Whether a task carries a message from a socket to the kernel."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and f"{os.sep}ipykernel{os.sep}" in code.co_filename


def _nesting():
    """Whether the loop's callback was reached through user code that runs the loop once more."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != "himalia_kernel.app":
        module = frame.f_globals.get("__name__") or ""
        if not f"{module}.".startswith(_LOOP_MODULES):
            return f"the event loop is being run by {module}"
        frame = frame.f_back
    return None
