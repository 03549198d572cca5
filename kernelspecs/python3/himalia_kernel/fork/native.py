"""Threads that Python does not know, by the library that they wait in."""

import ctypes
import os
import re
import struct
import sys
import threading
import time

# Libraries whose threads are gone in a forked child, and which notice that and start them again: they have fork
# handlers, or look at the process id. Each was used before a fork and in the branch by tests/python/kernel.
_RESTARTS = re.compile(r"openblas|/pyarrow/|/libarrow|/libparquet|/numexpr/")
# The C and C++ runtimes, which are on every thread's stack.
_RUNTIME = re.compile(r"/(libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s|ld-[^/]*|ld-linux[^/]*)[.-][^/]*$|^\[")
_OPENMP = re.compile(r"/libgomp[.-]")
# Names of threads that are known to be harmless. The kernel cuts names at 15 bytes.
_HARMLESS_NAMES = ("ZMQbg/", "jemalloc_bg_thd")
_STACK_SEARCHED = 32 * 1024
# How long threads that were told to end, or that spin before they sleep, are waited for.
_SETTLE_S = 0.5
_OMP_PAUSE_HARD = 2


def pause_openmp():
    """End the idle threads of GNU OpenMP, which would be missed in the branch for ever. They come back when needed.

    To be called in the main thread: each thread that ran a parallel region has a pool of its own.
    """
    for path in sorted({path for _, _, path in _mapped() if _OPENMP.search(path)}):
        try:
            ctypes.CDLL(path).omp_pause_resource_all(_OMP_PAUSE_HARD)
        except (OSError, AttributeError):
            continue  # an older one: its threads are found below


def hazards():
    """Hazards by native threads, after waiting a moment for those that are about to end or to sleep."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        found, settled = _look()
        if settled or time.monotonic() >= deadline:
            return found
        time.sleep(0.001)


def _look():
    """Return `(hazards, whether another look may find less)`."""
    found, settled = [], True
    known = {thread.native_id for thread in threading.enumerate()} | {os.getpid()}
    libraries = None
    for tid in map(int, os.listdir("/proc/self/task")):
        if tid in known:
            continue
        try:
            with open(f"/proc/self/task/{tid}/comm") as file:
                name = file.read().strip()
        except OSError:
            continue  # it ended
        if name.startswith(_HARMLESS_NAMES):
            continue
        if name.startswith("polars"):
            found.append(_hazard("polars", name, "polars has run; its thread pool hangs in a branch"))
            continue
        if libraries is None:
            libraries = _mapped()
        library, asleep = _library_of(tid, libraries)
        if library is not None and _RESTARTS.search(library):
            continue
        if library is None or _OPENMP.search(library):
            settled = False
        if library is None:
            detail = "a thread of an unknown library" if asleep else "a thread that is running"
            found.append(_hazard("native-thread", name, detail))
        elif _OPENMP.search(library):
            found.append(_hazard("openmp", name, "a thread other than the main one used OpenMP"))
        else:
            found.append(_hazard("native-thread", name, f"a thread of {os.path.basename(library)}"))
    return found, settled


def _hazard(kind, name, detail):
    return {"kind": kind, "name": name, "detail": detail, "severity": "refuse"}


def _library_of(tid, mapped):
    """Return `(path of the library that a thread waits in or None, whether the thread sleeps)`.

    The innermost return address on its stack that leads into a library other than the runtime's. Where /proc does not
    tell the stack pointer (gVisor), a loaded library that is known to start threads answers for all of them.
    """
    try:
        with open(f"/proc/self/task/{tid}/syscall") as file:
            fields = file.read().split()
    except FileNotFoundError:
        return next((path for _, _, path in mapped if _RESTARTS.search(path)), None), True
    except OSError:
        return None, False
    if len(fields) < 3 or fields[0] == "running":
        return None, False
    stack = int(fields[-2], 16)
    for address in _words(stack, _STACK_SEARCHED):
        for start, end, path in mapped:
            if start <= address < end:
                return path, True
    return None, True


def _words(address, length):
    """The pointer-sized words of this process's memory from an address on, as far as they are mapped."""
    page = os.sysconf("SC_PAGE_SIZE")
    data = b""
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        end = address + length
        while address < end:
            step = min(end, (address // page + 1) * page) - address
            data += os.pread(memory, step, address)
            address += step
    except OSError:
        pass  # the stack ends here
    finally:
        os.close(memory)
    return struct.unpack(f"{len(data) // 8}Q", data[: len(data) // 8 * 8])


def _mapped():
    """`(start, end, path)` of the code of every library but the runtime's and the interpreter's own."""
    own = {os.path.realpath(sys.executable), os.path.realpath("/proc/self/exe")}
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) < 6 or "x" not in fields[1]:
                continue
            path = fields[5]
            if _RUNTIME.search(path) or path in own or os.path.basename(path).startswith("libpython"):
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            found.append((start, end, path))
    return found
