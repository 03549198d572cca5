"""What an execution took: processor time, and the most memory that the kernel's process had meanwhile.

`{"cpu_ms", "peak_memory_bytes"}`. Processor time is that of all threads of the kernel's process, and of processes of it that ended
and were waited for, as those of a `%%bash` cell are. Memory is that of the process alone: None where the system does not
tell it for the time of one execution.
"""

import contextlib
import os
import resource

_RESET_PEAK = b"5"  # of clear_refs, see proc(5)
_STATUS_BYTES = 16384  # more than the whole of it


class Meter:
    """Measures from its making on."""

    def __init__(self):
        self._resets = _reset_peak()
        self._peak = None if self._resets else _peak()
        self._cpu = _cpu()

    def read(self):
        """What was taken since."""
        return {"cpu_ms": max(0, round((_cpu() - self._cpu) * 1000)), "peak_memory_bytes": self._memory()}

    def _memory(self):
        peak = _peak()
        if self._resets:
            return peak
        # The peak of the whole life says something only if it was reached meanwhile.
        return peak if peak is not None and self._peak is not None and peak > self._peak else None


def _cpu():
    mine, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + ended.ru_utime + ended.ru_stime


def _reset_peak():
    """Let the peak begin anew; whether the system did."""
    with contextlib.suppress(OSError):
        file = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(file, _RESET_PEAK)
        finally:
            os.close(file)
        return True
    return False


def _peak():
    """The most resident memory, bytes."""
    with contextlib.suppress(OSError, ValueError):
        # Read at once: a file object costs half as much again, after each execution.
        file = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.read(file, _STATUS_BYTES)
        finally:
            os.close(file)
        start = status.index(b"VmHWM:") + len(b"VmHWM:")
        return int(status[start : status.index(b"kB", start)]) * 1024
    return None
