"""What the demos print, with colours where the terminal has them."""

import os
import sys

_COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _styled(code, text):
    return f"\x1b[{code}m{text}\x1b[0m" if _COLOURS else text


def bold(text):
    """Emphasised text."""
    return _styled("1", text)


def dim(text):
    """Text in the background."""
    return _styled("2", text)


def good(text):
    """Text about something that went well."""
    return _styled("32", text)


def bad(text):
    """Text about something that did not."""
    return _styled("31", text)


def say(text=""):
    """Print a line now."""
    print(text, flush=True)


def heading(text):
    """Print a heading."""
    say()
    say(bold(text))


class Indented:
    """Writes streamed text with a margin, whatever pieces it comes in."""

    def __init__(self, margin="  │ "):
        self.margin = margin
        self._at_start = True

    def write(self, text):
        """Write a piece of text."""
        for line in text.splitlines(keepends=True):
            if self._at_start:
                sys.stdout.write(dim(self.margin))
            sys.stdout.write(line)
            self._at_start = line.endswith("\n")
        sys.stdout.flush()

    def end(self):
        """End the line, if one is open."""
        if not self._at_start:
            self.write("\n")
