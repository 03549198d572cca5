"""`sys.stdout` and `sys.stderr` of a kernel, with a bound on the text that is not yet sent."""

import codecs
import fcntl
import os
import select
import struct
import sys
import termios
import threading
import time
import weakref
from functools import partial

from ipykernel.iostream import OutStream

from himalia_kernel.budget import BULK_LIMIT

# Characters in one stream message at most.
PIECE = 256 * 1024
# Characters that are collected before they are sent without waiting for the flush interval.
_PUSH_AT = 128 * 1024
# How long a flush waits for its text to be handed to ZeroMQ. Short: the end of each cell flushes, and must be reached
# soon after an interrupt even without a reader.
_FLUSH_WAIT_S = 0.1
# How long a flush by code of the user's waits for its text to be written: no crash after it takes the text away.
_WRITE_WAIT_S = 5.0


# Bytes of one read from a descriptor.
_CHUNK = 64 * 1024


_STREAMS = weakref.WeakSet()


def take_written():
    """Take over what children and C code have written to the descriptors by now: it is the output of the cell of the main thread, which
    ends.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for stream in list(_STREAMS):
        stream.take_written()


class _Batch:
    """Text taken from a stream, queued for the IOPub thread."""

    __slots__ = ("stream", "texts")

    def __init__(self, stream):
        self.stream = stream
        self.texts = {}

    def __call__(self):
        self.stream._send_texts(self.texts)


class _Direct:
    """What `Session.send` is given in the IOPub thread: sends at once instead of queueing once more."""

    def __init__(self, thread):
        self.send_multipart = thread._really_send


class BoundedOutStream(OutStream):
    """`OutStream` whose `write` waits while more than 4 MiB are unsent.

    The text is queued in the order of its writes and of the other messages, in the calling thread, so a `flush` need
    not wait for the sake of order. Parts of the same cell's output are joined as in ipykernel; a stream message never
    exceeds `PIECE` characters.
    """

    def __init__(self, session, pub_thread, name, *args, **kwargs):
        self._texts = {}  # parent header (frozen) -> pieces of text, guarded by the budget's lock
        self._length = 0  # characters in _texts
        self._taking = threading.Lock()
        self._decoder = _decoder()
        super().__init__(session, pub_thread, name, *args, **kwargs)
        _STREAMS.add(self)
        self._direct = _Direct(self.pub_thread)
        os.register_at_fork(after_in_child=self._forget_parent)

    def move_to(self, pub_thread):
        """In the copy of a kernel in a forked process: publish through another thread, with a pipe of its own.

        The descriptors 1 and 2 lead into the parent's pipe until this is done, and its reading end is here too.
        """
        self.pub_thread = pub_thread
        self._io_loop = pub_thread.io_loop
        self._direct = _Direct(pub_thread)
        self._master_pid = os.getpid()
        self._subprocess_flush_pending = False
        self._forget_parent()
        if not self._should_watch:
            return
        reading, writing = os.pipe()
        os.dup2(writing, self._original_stdstream_fd)
        os.close(writing)
        os.close(self._fid)
        self._fid = reading
        self._exc = None
        self.watch_fd_thread = threading.Thread(target=self._watch_pipe_fd, daemon=True)
        self.watch_fd_thread.start()

    def _watch_pipe_fd(self):
        """In a thread: write what comes by the descriptor, a character of several bytes when all of them are there."""
        if self._fid is None:
            return
        readable = select.poll()
        readable.register(self._fid, select.POLLIN)
        try:
            while self._should_watch:
                (_, event), *_ = readable.poll()
                with self._taking:
                    # Nothing is left where a cell that ended has taken it.
                    data = self._take(_CHUNK) if _waiting(self._fid) else b""
                if data:
                    self._copy(data)
                elif event & select.POLLHUP:
                    return
        except Exception:
            self._exc = sys.exc_info()

    def _take(self, limit):
        """Write what comes by the descriptor next; returns it."""
        data = os.read(self._fid, limit)
        text = self._decoder.decode(data) if self._should_watch else ""
        if text:
            self.write(text)
        return data

    def _copy(self, data):
        """To where the descriptor led before."""
        if self._should_watch:
            os.write(self._original_stdstream_copy, data)

    def take_written(self):
        """Write what is in the pipe by now, and no more: something in the background may write for ever."""
        if not self._should_watch or os.getpid() != self._master_pid:
            return
        budget, give_up_at = self.pub_thread.budget, time.monotonic() + _WRITE_WAIT_S
        # The thread has it while it writes what it has read, which belongs to this cell: it is waited for, unless it waits for a reader.
        while not self._taking.acquire(timeout=_FLUSH_WAIT_S):
            if budget.unsent > BULK_LIMIT or time.monotonic() >= give_up_at:
                return
        try:
            left = _waiting(self._fid)
            while left > 0 and budget.unsent <= BULK_LIMIT:
                data = self._take(min(left, _CHUNK))
                self._copy(data)
                left -= len(data)
        finally:
            self._taking.release()

    def _forget_parent(self):
        """In a forked child: the text that was written before the fork is the parent's to send."""
        self._taking = threading.Lock()
        self._decoder = _decoder()
        self._texts = {}
        self._length = 0
        self._flush_pending = False

    def write(self, string):
        """Write text; waits while too much is unsent. Returns the number of characters."""
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        if self.pub_thread is None:
            raise ValueError("I/O operation on closed file")
        if self.echo is not None:
            self._echo(string)
        parent = self.parent_header
        length = len(string)
        if length <= PIECE:
            self._put(parent, string, length)
        else:
            for start in range(0, length, PIECE):
                piece = string[start : start + PIECE]
                self._put(parent, piece, len(piece))
        return length

    def _echo(self, string):
        try:
            self.echo.write(string)
        except OSError:
            pass  # the terminal is gone; the clients are not

    def _put(self, parent, text, length):
        thread = self.pub_thread
        thread.wait_for_room()
        key = frozenset(parent.items())
        budget = thread.budget
        with budget.lock:
            texts = self._texts
            if key not in texts:
                texts[key] = []
            budget.unsent += length
            self._length += length
            texts[key].append(text)
        if self._length >= _PUSH_AT or not thread.thread.is_alive():
            self._push()
        else:
            self._schedule_flush()

    def _push(self):
        """Queue all collected text for sending. Returns whether there was any."""
        if not self._texts:
            return False
        thread = self.pub_thread
        if not thread.thread.is_alive():
            batch = _Batch(self)
            batch.texts, self._texts = self._texts, {}
            self._length = 0
            self._flush_pending = False
            batch()
            return True
        batch = _Batch(self)
        events = thread._events
        fresh = {}
        with thread.budget.lock:
            # No call stands between taking the text and queueing it, so no interrupt can lose it.
            batch.texts = self._texts
            self._texts = fresh
            self._length = 0
            self._flush_pending = False
            events.append(batch)
        thread.wake()
        return True

    def _flush(self):
        """Called by the flush timer, in the IOPub thread."""
        self._flush_pending = False
        self._push()

    def flush(self):
        """Queue what was written, and wait a moment until it is with ZeroMQ; in a cell until it has left the process."""
        thread = self.pub_thread
        if thread is None:
            return
        if self.echo is not None:
            try:
                self.echo.flush()
            except OSError:
                pass
        if self._push() and thread.may_wait():
            gate = threading.Lock()
            gate.acquire()
            if thread.flushes_fully:
                thread.schedule(partial(thread.written, _WRITE_WAIT_S, gate.release))
                gate.acquire(True, _WRITE_WAIT_S)
            else:
                thread.schedule(gate.release)
                gate.acquire(True, _FLUSH_WAIT_S)

    def _send_texts(self, texts):
        """Send collected text, in the IOPub thread (or in a forked child, at once)."""
        for key, pieces in texts.items():
            text = "".join(pieces)
            for start in range(0, len(text), PIECE):
                part = text[start : start + PIECE]
                try:
                    self._send_text(dict(key), part)
                finally:
                    self.pub_thread.budget.sent(len(part))

    def _send_text(self, parent, text):
        self.session.pid = os.getpid()  # the IOPub thread is what keeps forked children apart
        message = self.session.msg("stream", {"name": self.name, "text": text}, parent=parent)
        for hook in self._hooks:
            message = hook(message)
            if message is None:
                return
        self.session.send(self._direct, message, ident=self.topic)


def _decoder():
    """For bytes of which a character's may come one after the other."""
    return codecs.getincrementaldecoder("utf-8")("replace")


def _waiting(pipe):
    """How many bytes are in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
