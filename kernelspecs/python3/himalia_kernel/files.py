"""Says which files an execution wrote: one bounded walk of the session's directory after it, and nothing before it.

Every write stamps a file with the filesystem's clock, so the files of an execution are those that were stamped after it
began; files that came between two executions are not counted. The stamp is that of the inode (ctime), which a copied or
unpacked file cannot bring along. It also shows a new name or mode. A filesystem with a clock of its own (NFS) may be off.

The walk does not follow links, does not enter other filesystems, and leaves out directories that begin with a dot and
`__pycache__`.
"""

import os
import time
from collections import deque

# Entries that are looked at, and paths that are named.
ENTRIES_LIMIT = 20_000
PATHS_LIMIT = 200
# What a walk may take, seconds: a share of the execution's own time beside a little that is always there.
_ALWAYS_S = 0.003
_SHARE = 0.05
_AT_MOST_S = 0.1
# Entries between two looks at the clock. The first come without one: a small directory is always seen whole.
_LOOK_AT_CLOCK = 64

# The clock that files are stamped with, which a timer tick sets; the exact one would be ahead of it.
_CLOCK_REALTIME_COARSE = 5


def stamp():
    """What a file that is written now is stamped with, nanoseconds."""
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except OSError:
        return time.time_ns() - 20_000_000  # two ticks of the slowest timer in use


def budget(duration):
    """Seconds that a walk may take after an execution of `duration` seconds."""
    return min(_AT_MOST_S, _ALWAYS_S + _SHARE * duration)


class Walker:
    """Names each writing once, although short executions may share one tick of the clock."""

    def __init__(self):
        self._named = set()  # (path, stamp, size) of files that were named, and which a later walk could find again

    def written(self, directory, since, seconds):
        """Regular files below `directory` that were stamped at `since` or later, as paths relative to it, sorted.

        Returns `{"written", "truncated"}`; `truncated` if entries were not looked at, or paths left out.
        """
        deadline = time.monotonic() + seconds
        self._named = {one for one in self._named if one[1] >= since}
        found, complete = [], True
        for number, (path, status) in enumerate(_files(directory), start=1):
            late = number % _LOOK_AT_CLOCK == 0 and time.monotonic() > deadline
            if number > ENTRIES_LIMIT or len(found) > PATHS_LIMIT or late:
                complete = False
                break
            if status is not None and status.st_ctime_ns >= since:
                one = (path, status.st_ctime_ns, status.st_size)
                if one not in self._named:
                    found.append(one)
        self._named.update(found)
        found = sorted(_readable(path) for path, _, _ in found)
        return {"written": found[:PATHS_LIMIT], "truncated": not complete}


def _files(directory):
    """`(relative path, status)` of every entry; the status of what is no regular file is None."""
    try:
        device = os.stat(directory).st_dev
    except OSError:
        return
    waiting = deque([("", directory)])
    while waiting:
        prefix, path = waiting.popleft()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name, status = prefix + entry.name, None
                    if entry.is_dir(follow_symlinks=False):
                        hidden = entry.name.startswith(".") or entry.name == "__pycache__"
                        if not hidden and entry.stat(follow_symlinks=False).st_dev == device:
                            waiting.append((name + "/", entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                    yield name, status
        except OSError:
            continue  # gone meanwhile, or not to be read


def _readable(path):
    """A path as text that can be sent; bytes that are no UTF-8 become question marks."""
    return path.encode(errors="replace").decode()
