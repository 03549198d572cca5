"""`himalia` in a terminal."""

import os
import pty
import select
import termios
import time

DEADLINE = 60


def command(gateway, *arguments):
    """The command line of `himalia` for a gateway; the options go behind the subcommands."""
    return [*gateway.command(), *arguments, "--url", gateway.url, "--token-file", str(gateway.token_file)]


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, argv, directory, **env):
        self.seen = b""
        self.pid, self.screen = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            for name in ("NO_COLOR", "TMUX", "STY", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL"):
                os.environ.pop(name, None)
            os.environ.update({"TERM": "xterm-256color", **env})
            os.execv(argv[0], argv)

    def until(self, text):
        """Read until this was shown since the last time."""
        end = time.monotonic() + DEADLINE
        while text.encode() not in self.seen:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            assert self._read(), f"ended without {text!r}: {self.seen!r}"
        before, _, self.seen = self.seen.partition(text.encode())
        return before.decode()

    def type(self, text):
        """Press keys."""
        os.write(self.screen, text.encode())

    def shows_what_is_typed(self):
        """Whether keys show."""
        return bool(termios.tcgetattr(self.screen)[3] & termios.ECHO)

    def end(self):
        """(exit code, the rest of the screen)."""
        end = time.monotonic() + DEADLINE
        while self._read():
            assert time.monotonic() < end, self.seen
        _, status = os.waitpid(self.pid, 0)
        os.close(self.screen)
        return os.waitstatus_to_exitcode(status), self.seen.decode()

    def _read(self):
        ready, _, _ = select.select([self.screen], [], [], DEADLINE)
        assert ready, f"nothing more came: {self.seen!r}"
        try:
            part = os.read(self.screen, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.seen += part
        return bool(part)
