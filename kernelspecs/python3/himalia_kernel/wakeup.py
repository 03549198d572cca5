"""Lets an interrupt end a wait that began in the same moment.

The interpreter only notes that a signal came, and handles it between two instructions or when the signal has cut a
system call short. One that comes after the last look and before the call, as the lock of the interpreter changes hands,
cuts nothing short: `time.sleep(1000)` then sleeps on, and the interrupt seems lost. So does one that the system
delivers to another thread than the main one. Here each signal also wakes the control thread, which makes the main
thread look again.
"""

import contextlib
import signal
import socket
import threading

# Ignored by default, so that one which comes when its handler is gone does nothing.
_NUDGE = signal.SIGURG
# When the main thread is made to look, in seconds after the signal: it may take that long to get from its last look to
# the system call when others have the processor. Looking once more for nothing is harmless.
_NUDGES_S = (0.002, 0.02, 0.2, 1.0)
_READ_SIZE = 4096


class Wakeup:
    """The process's wake-up descriptor for signals. Made in the main thread, before the control thread runs."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._main = threading.main_thread().ident
        self._told, self._tell = socket.socketpair()
        self._told.setblocking(False)
        self._tell.setblocking(False)
        self._control = kernel.control_thread.io_loop
        self._control.add_handler(self._told, self._look, self._control.READ)
        if signal.getsignal(_NUDGE) == signal.SIG_DFL:
            signal.signal(_NUDGE, _nothing)

    def arm(self):
        """Receive signals, unless code of the user's has a descriptor of its own for that. In the main thread."""
        before = signal.set_wakeup_fd(self._tell.fileno(), warn_on_full_buffer=False)
        if before not in (-1, self._tell.fileno(), self._loop()._csock.fileno()):
            signal.set_wakeup_fd(before)

    def _loop(self):
        return self._kernel.io_loop.asyncio_loop

    def _look(self, told, _events):
        """Called in the control thread."""
        numbers = bytes(number for number in told.recv(_READ_SIZE) if number != _NUDGE)
        if not numbers:
            return
        # The event loop of the main thread may be about to wait, and calls the handlers that were added to it.
        with contextlib.suppress(OSError):
            self._loop()._csock.send(numbers)
        if signal.SIGINT in numbers:
            for delay in _NUDGES_S:
                self._control.call_later(delay, self._nudge)

    def _nudge(self):
        if signal.getsignal(_NUDGE) is _nothing:
            signal.pthread_kill(self._main, _NUDGE)


def _nothing(_number, _frame):
    """What runs first is the handler of the signal that was noted."""
