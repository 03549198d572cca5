"""Puts the memory of the host zygote on huge pages: a fork copies one entry for each, where small pages have 512.

All that is forked from it is faster to fork and to end. What a child writes to it still copies as one small page.
"""

import contextlib
from pathlib import Path

from himalia_kernel import libc

_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
# The part of a mapping that must be in use, or the huge pages would take more memory than the small ones.
_IN_USE = 0.9


def use():
    """Do it where the system can; elsewhere nothing happens. Takes up to 0.2 s."""
    try:
        size = int(_SIZE.read_text())
        with open("/proc/self/smaps") as mappings:
            found = list(ranges(mappings, size))
    except (OSError, ValueError):
        return
    for start, end in found:
        with contextlib.suppress(OSError):  # an older kernel, or no huge page is free
            libc.collapse(start, end - start)


def ranges(smaps, size):
    """Of lines as of `/proc/self/smaps`: `(start, end)` of the whole huge pages in private memory that is in use."""
    start = end = 0
    for line in smaps:
        first, *rest = line.split()
        if not first.endswith(":"):
            ours = rest[0] == "rw-p" and (len(rest) < 5 or rest[4] == "[heap]")
            start, end = (int(at, 16) for at in first.split("-")) if ours else (0, 0)
        elif first == "Anonymous:" and int(rest[0]) * 1024 >= _IN_USE * (end - start):
            whole = -(-start // size) * size, end // size * size
            if whole[0] < whole[1]:
                yield whole
