"""The thread that publishes, with a bound on what waits for it."""

import os
import threading
import time
import weakref
from functools import partial

import zmq
from ipykernel.iostream import IOPubThread
from ipykernel.thread import CONTROL_THREAD_NAME, SHELL_CHANNEL_THREAD_NAME

from himalia_kernel.budget import BULK_LIMIT, URGENT_LIMIT, Budget
from himalia_kernel.lap import Lap

# How long one attempt to send may block; between attempts the thread sees that it shall stop.
SEND_TIMEOUT_MS = 250
# How long a stopping kernel continues to try to send what is left to a reader that does not read.
_STOP_GRACE_S = 3.0
# Threads that answer while user code is stuck: they never wait for room.
_NEVER_WAIT = (CONTROL_THREAD_NAME, SHELL_CHANNEL_THREAD_NAME)
# Messages that code can make without end, by the end or the start of their topic.
_BULK_ENDS = (b"display_data", b"execute_result")
_BULK_STARTS = (b"stream.", b"comm-")


def _is_bulk(topic):
    topic = bytes(topic)
    return topic.endswith(_BULK_ENDS) or topic.startswith(_BULK_STARTS)


def _size(frames):
    return sum(frame.nbytes if isinstance(frame, memoryview) else len(frame) for frame in frames)


_THREADS = weakref.WeakSet()


def _forget_parent():
    for thread in list(_THREADS):
        thread.forget_parent()


os.register_at_fork(after_in_child=_forget_parent)


class _Publisher(threading.Thread):
    """A thread whose `is_alive` can be asked in code that is interrupted at any moment.

    An exception inside `Thread.is_alive` of Python 3.10 to 3.12 makes a running thread count as ended for ever (it gives up the
    lock that the thread holds while it runs): others would then use its socket beside it.
    """

    def __init__(self, target):
        super().__init__(target=target, name="IOPub", daemon=True)
        self.pydev_do_not_trace = True
        self.is_pydev_daemon_thread = True
        self.alive = False

    def start(self):
        self.alive = True
        super().start()

    def run(self):
        try:
            super().run()
        finally:
            self.alive = False

    def is_alive(self):
        return self.alive


class BoundedIOPubThread(IOPubThread):
    """`IOPubThread` whose senders wait while too much is unsent, and which can always be woken and stopped."""

    def __init__(self, socket, pipe=False, session=False):
        self.budget = Budget()
        # Whether code of the user's runs: a flush of its own waits until its text is written.
        self.flushes_fully = False
        self._give_up_at = None
        self._lap = Lap(socket.context)
        super().__init__(socket, pipe=pipe, session=session)
        self.thread = _Publisher(self._thread_main)
        _THREADS.add(self)

    def forget_parent(self):
        """In a forked child: the parent sends what is queued, and no thread may hold the lock."""
        self.thread.alive = False
        self.budget = Budget()
        self._events.clear()

    # Queueing, from any thread.

    def may_wait(self):
        """Whether the calling thread may wait for this one to send something."""
        thread = threading.current_thread()
        return thread is not self.thread and thread.name not in _NEVER_WAIT and self.can_send()

    def can_send(self):
        """Whether the thread runs, in this process: not after `stop`, not in a forked child."""
        return self.thread.is_alive() and not self._stopped and os.getpid() == self._master_pid

    def wait_for_room(self, limit=BULK_LIMIT):
        """Wait until at most `limit` is unsent, if the calling thread may."""
        if self.budget.unsent > limit and self.may_wait():
            self.budget.wait(limit, self.can_send)

    def send_multipart(self, msg, *args, **kwargs):
        """Queue one message, waiting for room first."""
        if not self.thread.is_alive():
            self._really_send(msg, *args, **kwargs)
            return
        size = _size(msg)
        self.wait_for_room(BULK_LIMIT if _is_bulk(msg[0]) else URGENT_LIMIT)
        self.budget.put(self._events, partial(self._send_counted, size, msg, *args, **kwargs), size)
        self.wake()

    def schedule(self, f):
        """Run `f` in the thread, after all that was queued before; at once if the thread does not run."""
        if self.thread.is_alive():
            self._events.append(f)
            self.wake()
        else:
            f()

    def wake(self):
        """Make the thread look at its queue. Never blocks, as a full event pipe would."""
        try:
            self._event_pipe.send(b"", zmq.NOBLOCK)
        except zmq.Again:
            self.io_loop.add_callback(self._handle_event, None)
        except zmq.ZMQError as error:
            # The process ends: its pipes are closed, and another thread still has something to say.
            if error.errno != zmq.ENOTSOCK:
                raise

    # Sending, in the thread.

    def written(self, seconds, then):
        """Wait until what was sent is written, for at most so long; then call `then`."""
        try:
            self._lap.run(seconds)
        finally:
            then()

    def _send_counted(self, size, msg, *args, **kwargs):
        try:
            self._really_send(msg, *args, **kwargs)
        finally:
            self.budget.sent(size)

    def _really_send(self, msg, *args, **kwargs):
        """Send one message, trying again for as long as the reader does not read."""
        while not self._gave_up():
            try:
                super()._really_send(msg, *args, **kwargs)
                return
            except zmq.Again:
                continue  # it comes from the first frame only: nothing of the message was sent

    def _gave_up(self):
        return self._give_up_at is not None and time.monotonic() >= self._give_up_at

    def _handle_subscription(self, frames):
        try:
            super()._handle_subscription(frames)
        except zmq.Again:
            pass  # the welcome had no room: another subscriber does not read

    def stop(self):
        """Send what is queued, for at most the grace period, then stop the thread."""
        self._give_up_at = time.monotonic() + _STOP_GRACE_S
        if self.thread.is_alive():
            self.io_loop.add_callback(self._drain)
        super().stop()
        self.budget.wake()

    def close(self):
        """Close the sockets."""
        if not self.closed:
            self._lap.close()
        super().close()

    def _drain(self):
        while self._events:
            self._events.popleft()()
