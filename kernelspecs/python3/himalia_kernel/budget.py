"""Counts what was printed or published and is not yet sent, and lets writers wait for room.

Three dangers shape it. A `KeyboardInterrupt` may be raised in the main thread after any call, so no count and no
queue entry may be half made when one returns. A signal handler or a finaliser may print while the same thread is in
here, so the lock is re-entrant. And a fork may happen while another thread holds the lock, so it is made anew in the
child. Only C-level locks are used, in `with` statements: those of the threading module that are written in Python can
be left locked by an interrupt.
"""

import threading
from collections import deque

# Characters of text and bytes of messages that may be unsent before a writer of bulk output waits.
BULK_LIMIT = 4 * 1024 * 1024
# The same for messages that must get through while output is stuck (status, errors, replies to the debugger).
URGENT_LIMIT = 64 * 1024 * 1024
# A waiting writer looks again after this many seconds even if no thread woke it.
_LOOK_AGAIN = 0.5


class Budget:
    """How much is unsent (characters of text, or bytes of messages), with writers waiting for less."""

    def __init__(self):
        self.unsent = 0
        self.lock = threading.RLock()
        self._gates = deque()

    def put(self, queue, entry, size):
        """Append `entry` to `queue` and count `size`, both or neither."""
        with self.lock:
            self.unsent += size
            queue.append(entry)

    def sent(self, size):
        """Count `size` as sent, and wake the writers when half of the limit is free again."""
        with self.lock:
            self.unsent -= size
        if self._gates and self.unsent <= BULK_LIMIT // 2:
            self.wake()

    def wake(self):
        """Wake every waiting writer."""
        while True:
            try:
                gate = self._gates.popleft()
            except IndexError:
                return
            gate.release()

    def wait(self, limit, alive):
        """Wait until at most `limit` is unsent, or `alive()` is false. An interrupt of the main thread ends it."""
        while self.unsent > limit and alive():
            gate = threading.Lock()
            gate.acquire()
            self._gates.append(gate)
            try:
                # Looked at again after joining the queue: a wake in between would be missed.
                if self.unsent > limit and alive():
                    gate.acquire(True, _LOOK_AGAIN)
            finally:
                try:
                    self._gates.remove(gate)
                except ValueError:
                    pass  # it was woken
