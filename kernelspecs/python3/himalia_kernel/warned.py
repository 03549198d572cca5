"""Warnings are short, name the cell in place of its file, and each deprecation of a library is shown once.

Only the text is made here: filters, and code that records or replaces warnings, work as in any Python.
"""

import os
import sysconfig
import warnings

# Characters of a warning, and texts that are remembered.
_TEXT = 300
_SEEN = 1000
_LINE = 160
_PACKAGES = ("/site-packages/", "/dist-packages/")
_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_STANDARD = sysconfig.get_path("stdlib") + os.sep
# A warning that code did nothing is no deprecation: it is shown each time.
_NOTHING_DONE = "ChainedAssignmentError"
_CHAINED = (
    "this changes a copy and leaves the frame as it is: write `df[column] = df[column].method(value)`, or "
    "`df.loc[rows, column] = value`"
)


def install(shell):
    """Let the warnings of a shell's code be short."""
    seen = set()

    def formatted(message, category, filename, lineno, line=None):
        name, text = category.__name__, str(message)
        if name == _NOTHING_DONE:
            text = _CHAINED
        elif issubclass(category, (DeprecationWarning, FutureWarning, PendingDeprecationWarning)):
            key = (name, text)
            if key in seen:
                return ""
            if len(seen) < _SEEN:
                seen.add(key)
        return f"{_place(shell, filename)}:{lineno}: {name}: {_short(text)}\n{_source(shell, filename, lineno, line)}"

    warnings.formatwarning = formatted


def _short(text):
    text = text.strip()
    # What follows an empty line, or a reference to a page, is longer than it helps.
    text = text.split("\n\n")[0].split("\nSee ")[0]
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else text[: _TEXT - 1] + "…"


def _place(shell, filename):
    label = shell.compile.format_code_name(filename)
    if label is not None and label[0] == "Cell":
        return f"Cell {label[1]}"
    for place in _PACKAGES:
        if place in filename:
            return filename.rpartition(place)[2]
    return filename.removeprefix(_OWN).removeprefix(_STANDARD)


def _source(shell, filename, lineno, line):
    if line is None:
        import linecache

        label = shell.compile.format_code_name(filename)
        line = linecache.getline(filename, lineno) if label is not None and label[0] == "Cell" else ""
    line = line.strip()
    return f"  {line[:_LINE]}\n" if line else ""
