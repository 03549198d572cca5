"""The time slice of a kernel that starts.

A start computes for some hundred milliseconds. With a long time slice it lets the kernels that answer requests run first, from Linux 6.12 on,
and has the same share of the processor. Earlier versions of Linux ignore it.
"""

import contextlib
import os

from himalia_kernel import libc

LONG_SLICE_NS = 100_000_000
"""The longest slice that the scheduler takes."""


def begin():
    """Have a long time slice from now on, as the threads and processes that start here will, until `end`."""
    _set(0, LONG_SLICE_NS)


def end():
    """Give all threads of this process the default slice."""
    for thread in os.listdir("/proc/self/task"):
        _set(int(thread), 0)


def _set(thread, nanoseconds):
    # A thread may have ended, and a sandbox may forbid the call.
    with contextlib.suppress(OSError):
        # Another policy is the operator's choice.
        if os.sched_getscheduler(thread) == os.SCHED_OTHER:
            libc.set_slice(thread, nanoseconds)
