"""Lets an interrupt end a cell at once, and every interrupted request have its reply.

What ipykernel does with SIGINT has gaps:

* A cell with a top-level `await` is cancelled by a callback that the signal handler schedules. Nothing wakes the event
  loop for it, so the cell continues until some timer or socket does; a second interrupt does nothing; and while the cell
  computes between two awaits it is not interrupted at all.
* An interrupt just before or after the cell's own code is lost, or leaves the request without a reply.

A task of the cell's that computes without awaiting is still not interrupted: an exception there would end the loop.
"""

import asyncio
import contextvars
import functools
import signal
import threading
from contextlib import contextmanager

from ipykernel.ipkernel import IPythonKernel
from IPython.core.events import EventManager
from IPython.core.interactiveshell import InteractiveShell

# What else runs code of the user's. Both of them take an exception for that code's.
_BESIDE_THE_CELL = {EventManager.trigger.__code__, InteractiveShell.user_expressions.__code__}
_NONE = object()
_STOP = compile("raise KeyboardInterrupt", "<interrupted>", "exec")


class InterruptibleKernel(IPythonKernel):
    """`IPythonKernel` with a rule for SIGINT while the main shell handles an `execute_request`.

    In code of the user's it raises `KeyboardInterrupt`; a cell that awaits is cancelled. Elsewhere it is remembered, and
    what is left of the cell is not begun.
    """

    # Made with the control thread.
    wakeup = None
    _interrupted = False
    # The task of the cell, while it awaits or may do so, and the context that one has left.
    _awaiting = None
    _left = None

    def pre_handler_hook(self):
        """Called in the main thread before a request is handled."""
        super().pre_handler_hook()
        if self.get_parent("shell")["header"]["msg_type"] == "execute_request":
            self._interrupted, self._awaiting = False, None
            self.wakeup.arm()
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number, frame):
        places = _places(frame)
        # An exception between the two functions is taken for one of the cell's, too.
        if InterruptibleKernel._run_code.__code__ in places:
            signal.default_int_handler(number, frame)
        if self._awaiting is not None:
            # At once: a callback would come too late for a cell that continues next and then computes.
            self._awaiting.cancel()
            self.io_loop.asyncio_loop.call_soon_threadsafe(lambda: None)
            return
        self._interrupted = True
        if not _BESIDE_THE_CELL.isdisjoint(places):
            signal.default_int_handler(number, frame)

    def watch(self, shell):
        """Know when the shell runs code."""
        shell.run_code = functools.partial(self._run_code, shell.run_code)

    async def _run_code(self, run_code, code_obj, result=None, *, async_=False):
        if threading.current_thread() is not threading.main_thread():
            return await run_code(code_obj, result, async_=async_)
        if self._interrupted:
            code_obj, async_ = _STOP, False
        self._awaiting = asyncio.current_task() if async_ else None
        self._flush_fully(True)
        try:
            if not async_:
                self._swap(self._interrupt, signal.default_int_handler)
            return await run_code(code_obj, result, async_=async_)
        finally:
            if async_:
                self._left = contextvars.copy_context()
            self._flush_fully(False)
            self._awaiting = None
            self._swap(signal.default_int_handler, self._interrupt)

    def keep_context(self):
        """Set what a cell that awaits has set in context variables: such a cell is a task, with a context of its own."""
        if threading.current_thread() is not threading.main_thread():
            return
        left, self._left = self._left, None
        for variable, value in (left or {}).items():
            if variable.get(_NONE) is not value:
                variable.set(value)

    def _flush_fully(self, fully):
        if self.iopub_thread is not None:  # as in an embryo
            self.iopub_thread.flushes_fully = fully

    @staticmethod
    def _swap(ours, other):
        """Change the handler, unless it is one of the user's. Python's own leaves no frame in the traceback."""
        if signal.getsignal(signal.SIGINT) == ours:
            signal.signal(signal.SIGINT, other)

    @contextmanager
    def _cancel_on_sigint(self, future):
        """Nothing: the handler is in place already."""
        yield


def _places(frame):
    """The functions in whose call a signal came."""
    found = set()
    while frame is not None:
        found.add(frame.f_code)
        frame = frame.f_back
    return found


@contextmanager
def interrupts_dropped():
    """In the main thread: SIGINT does nothing."""
    with _handled(lambda number, frame: None):
        yield


@contextmanager
def interrupts_later():
    """In the main thread: SIGINT is what it is for the handler that is there already, but after the block."""
    came = []
    with _handled(lambda number, frame: came.append(number)):
        yield
    if came:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def _handled(handler):
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
