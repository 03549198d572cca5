"""`%%bash` cells: the text as a bash script, in a process group of its own, with what it prints streamed.

This is also how the gateway runs executions in the language `bash`. Standard input is empty, the directory and the
environment are those of the kernel. The cell ends when bash ends; processes that it left in the background live on, and
what they print still belongs to the cell. An exit code other than 0 is an error. An interrupt ends the whole group:
SIGINT, and SIGKILL after two seconds.

A line with options, as in `%%bash --out text`, is left to IPython's own magic.
"""

import codecs
import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

from himalia_kernel.interrupt import interrupts_dropped, interrupts_later

_MAGIC = "%%bash"
# Bytes of a script that are passed as an argument, for which Linux has a limit of 128 KiB.
_ARGUMENT = 100_000
_CHUNK = 64 * 1024
# How long a group may continue after SIGINT, and the wait for the end of one that was killed, seconds.
_GRACE_S = 2.0
_KILLED_S = 2.0
# How long at most it takes to see that bash has ended, when something in the background keeps its output open.
_LOOK_MS = 20


class BashError(Exception):
    """The script did not exit with 0, or there is no bash."""

    def _render_traceback_(self):
        return [f"BashError: {self}"]


def install(shell):
    """Take the place of a shell's `%%bash` magic."""
    plain = shell.find_cell_magic("bash")

    def bash(line, cell):
        if line.strip() and plain is not None:
            return plain(line, cell)
        code = run(cell)
        shell.user_ns["_exit_code"] = code
        shell.kernel.observer.exited(code)
        if code != 0:
            raise BashError(_reason(code))
        return None

    shell.register_magic_function(bash, "cell", "bash")


def is_cell(code):
    """Whether the text of an execution is a `%%bash` cell."""
    return code.startswith(_MAGIC) and code[len(_MAGIC) :].split("\n", 1)[0].strip() == ""


def _reason(code):
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"


def run(script):
    """Run a script to its end and return its exit code: of one that a signal ended, 128 and the signal's number."""
    if "\0" in script:
        raise BashError("a script cannot have a NUL character in it")
    process = output = None
    try:
        # Raised between the start of a process and the knowledge of it, an interrupt would leave that process alone.
        with interrupts_later():
            process = _start(script)
            output = _Output(process)
        output.follow(process)
    except FileNotFoundError:
        raise BashError("there is no bash in this environment, or no directory to run it in") from None
    except KeyboardInterrupt as interrupt:
        if process is not None:
            with interrupts_dropped():
                _end(process, output)
        # Frames of this module would help no user.
        interrupt._render_traceback_ = lambda: ["KeyboardInterrupt"]
        raise
    finally:
        if output is not None:
            output.leave()
    code = process.wait()
    return code if code >= 0 else 128 - code


def _start(script):
    options = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "bufsize": 0,
        "process_group": 0,
    }
    if len(script.encode()) <= _ARGUMENT:
        return subprocess.Popen(["bash", "-c", script], **options)
    with tempfile.TemporaryFile() as file:
        file.write(script.encode())
        file.flush()
        number = file.fileno()
        return subprocess.Popen(["bash", f"/dev/fd/{number}"], pass_fds=[number], **options)


def _has_ended(process, options=os.WNOHANG):
    """Whether the process has ended. It is not reaped, so that its number stays that of its group."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | options) is not None
    except ChildProcessError:  # other code in this process has reaped it
        return True


def _end(process, output):
    """End the whole group. What it still has to say is shown."""
    _signal(process, signal.SIGINT)
    output.follow(process, time.monotonic() + _GRACE_S)
    _signal(process, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_S)


def _signal(process, number):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Output:
    """The pipes of a process, as text on the cell's streams."""

    def __init__(self, process):
        self._pipes = {}  # descriptor -> (file, decoder, stream)
        for file, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self._pipes[file.fileno()] = (file, decoder, stream)

    def follow(self, process, deadline=None):
        """Pass on what comes until the process has ended and all that it wrote was read, or until the deadline."""
        poll = select.poll()
        for number in self._pipes:
            poll.register(number, select.POLLIN)
        while self._pipes:
            ended = _has_ended(process)
            for number, _ in poll.poll(0 if ended else _LOOK_MS):
                if not self._read(number, _CHUNK):
                    poll.unregister(number)
            if ended:
                self._rest()
                return
            if deadline is not None and time.monotonic() > deadline:
                return
        # It has closed its output, and may continue.
        if deadline is None:
            _has_ended(process, 0)
        while not _has_ended(process) and time.monotonic() <= deadline:
            time.sleep(_LOOK_MS / 1000)

    def _rest(self):
        """Pass on what is in the pipes by now, and no more: processes in the background may write for ever."""
        for number in list(self._pipes):
            left = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, b"\0\0\0\0"))[0]
            while left > 0 and (taken := self._read(number, min(left, _CHUNK))):
                left -= taken

    def _read(self, number, limit):
        """Pass on one piece; returns its bytes, 0 at the end of the pipe."""
        file, decoder, stream = self._pipes[number]
        data = os.read(number, limit)
        text = decoder.decode(data, final=not data)
        if text:
            stream.write(text)
        if not data:
            del self._pipes[number]
            file.close()
        return len(data)

    def leave(self):
        """Let go of the pipes. One that a process in the background still writes to is read by a thread from now on."""
        for number in list(self._pipes):
            ready = select.poll()
            ready.register(number, select.POLLIN)
            if ready.poll(0) and not self._read(number, _CHUNK):
                continue
            threading.Thread(target=self._forward, args=(number,), name="bash-output", daemon=True).start()

    def _forward(self, number):
        with contextlib.suppress(OSError, ValueError):
            while self._read(number, _CHUNK):
                pass
