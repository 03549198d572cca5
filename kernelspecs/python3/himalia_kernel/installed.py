"""Which packages the kernel can import, as one short hash: another one after an installation.

It is of the names and versions that are installed in the directories of `sys.path`, by their `.dist-info`; the working directory left
out. They are listed again when one of the directories was changed; until then a look costs a `stat` of each.
"""

import hashlib
import os
import sys

_DIRECTORIES = 64  # of `sys.path`
_ENTRIES = 100_000  # of all of them
_SUFFIXES = (".dist-info", ".egg-info")
_DIGITS = 16


class Installed:
    """The packages as they were at the latest look."""

    def __init__(self):
        self._stamps = None
        self._digest = None

    def digest(self):
        """The hash, hexadecimal; None if there is too much to look at."""
        stamps = _stamps()
        if stamps != self._stamps:
            self._digest = _digest([directory for directory, _ in stamps])
            self._stamps = stamps
        return self._digest


def _stamps():
    found = []
    for directory in list(sys.path)[:_DIRECTORIES]:
        # The caller's code can put anything there.
        if type(directory) is not str or not os.path.isabs(directory):
            continue
        try:
            found.append((directory, os.stat(directory).st_mtime_ns))
        except (OSError, ValueError):
            continue
    here = _working_directory()
    return [one for one in found if one[0] != here]


def _working_directory():
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _digest(directories):
    names, looked = set(), 0
    for directory in directories:
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    looked += 1
                    if looked > _ENTRIES:
                        return None
                    if entry.name.endswith(_SUFFIXES):
                        names.add(entry.name)
        except OSError:
            continue
    lines = "\n".join(sorted(names)).encode(errors="surrogateescape")
    return hashlib.sha256(lines).hexdigest()[:_DIGITS]
