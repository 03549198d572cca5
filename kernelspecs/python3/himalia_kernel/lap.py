"""Tells when ZeroMQ has written what was given to it.

`send` only queues: a thread of ZeroMQ's own writes to the socket, and what it has not written is lost when the process is
killed or crashes. That thread does its orders in their turn, so when a message that was sent later, over a pair of
sockets of the same context, has gone around, the earlier one was written, as far as the reader's socket had room.
"""

import time
import uuid

import zmq


class Lap:
    """A pair of sockets that a message goes around. For one thread. The context must have one thread for its sockets."""

    def __init__(self, context):
        self._number = 0
        self._start = context.socket(zmq.PAIR)
        self._end = context.socket(zmq.PAIR)
        self._start.linger = self._end.linger = 0
        # In the abstract namespace: it needs no directory, and nothing is left of it.
        address = f"ipc://@himalia-lap-{uuid.uuid4().hex}"
        try:
            self._end.bind(address)
            self._start.connect(address)
        except zmq.ZMQError:
            self.close()  # a system without such names: nothing is waited for

    def run(self, seconds):
        """Wait until everything that was sent before is written, for at most so long. Says whether it is."""
        if self._start.closed:
            return False
        self._number += 1
        message = self._number.to_bytes(8, "big")
        end = time.monotonic() + seconds
        self._start.send(message)
        while True:
            left = end - time.monotonic()
            if left <= 0 or not self._end.poll(1000 * left):
                self.close()  # as where such names cannot be connected to: that would be waited for each time
                return False
            # An earlier one can arrive late.
            if self._end.recv() == message:
                return True

    def close(self):
        """Close both sockets."""
        self._start.close()
        self._end.close()
