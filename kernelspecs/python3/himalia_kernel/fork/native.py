"""Threads that Python does not know, by the library that they belong to."""

import ctypes
import os
import re
import threading
import time

from himalia_kernel.fork import stacks

# Libraries whose threads are missing in a branch and which start them again there. Each was used before a fork, in the
# branch and in the parent by tests/python/kernel, with the versions in tests/libraries and the kernels' environment.
_RESTARTS = re.compile(
    r"openblas"  # joins its threads in pthread_atfork's prepare handler
    r"|/pyarrow/|/libarrow|/libparquet"  # makes its pools anew in pthread_atfork's child handler
    r"|/numexpr/"  # compares the process id before each evaluation
    r"|/numba/np/ufunc/workqueue"  # forgets its queues in the child, registered by numba itself
)
_OPENMP = re.compile(r"/libgomp[.-]")
# Libraries that were seen to hang or crash in a branch, or that cannot work there: the pattern of the path, the
# hazard's kind and name, and what it means with what to do about it.
_LOST = (
    (
        re.compile(r"/_polars_runtime|/polars/polars\."),
        "polars",
        "polars",
        "polars has run a query, and its thread pool would hang in a branch; fork before the first query"
        " (import is fine), or query in a subprocess",
    ),
    (
        re.compile(r"/_?duckdb[./]"),
        "native-thread",
        "duckdb",
        "a branch would crash when a DuckDB connection from before the fork is closed; close all of them first"
        " (`con.close()`, `duckdb.default_connection().close()`)",
    ),
    (
        re.compile(r"/grpc/_cython/"),
        "native-thread",
        "grpc",
        "gRPC has open channels, whose threads a branch would not have; close them first (`channel.close()`)",
    ),
    (
        _OPENMP,
        "openmp",
        "OpenMP",
        "a thread other than the main one used GNU OpenMP, and its next parallel region would hang in a branch;"
        " let that thread end first",
    ),
)
# Names of threads that are known to be harmless. The kernel cuts names at 15 bytes. `polars-ooc-clea` starts with
# the import of polars, and queries in a branch do without it.
_HARMLESS_NAMES = ("ZMQbg/", "jemalloc_bg_thd", "polars-ooc-")
# How long threads that were asked to end, or that spin before they sleep, are waited for before a refusal.
_SETTLE_S = 0.5
_OMP_PAUSE_HARD = 2


def pause_openmp():
    """End the idle threads of GNU OpenMP, which would be missed in the branch for ever. They come back when needed.

    To be called in the main thread: each thread that ran a parallel region has a pool of its own.
    """
    for path in sorted({path for _, _, path in stacks.mapped() if _OPENMP.search(path)}):
        try:
            ctypes.CDLL(path).omp_pause_resource_all(_OMP_PAUSE_HARD)
        except (OSError, AttributeError):
            continue  # an older one: its threads are found below


def hazards():
    """Hazards by native threads. Those that are about to end or to sleep are waited for a moment."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        found = _look()
        if not found or time.monotonic() >= deadline:
            return found
        time.sleep(0.001)


def _look():
    """What is to be seen now: one hazard for all threads of a library."""
    found = []
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
        if libraries is None:
            libraries = stacks.mapped()
        library, asleep = _owner(tid, libraries)
        if library is not None and _RESTARTS.search(library):
            continue
        hazard = _hazard(name, library, asleep)
        if hazard not in found:
            found.append(hazard)
    return found


def _owner(tid, libraries):
    """As `stacks.owner`. Where stacks cannot be read, a known library that is loaded answers for all threads."""
    try:
        return stacks.owner(tid, libraries)
    except FileNotFoundError:
        paths = [path for _, _, path in libraries]
        # Not OpenMP's: its idle threads were ended.
        lost = [pattern for pattern, *_ in _LOST if pattern is not _OPENMP]
        lost = next((path for path in paths if any(pattern.search(path) for pattern in lost)), None)
        return lost or next((path for path in paths if _RESTARTS.search(path)), None), True


def _hazard(name, library, asleep):
    """What a thread of a library means that does not start its threads again, as far as is known."""
    kind, detail = "native-thread", "a thread of an unknown library" if asleep else "a thread that is running"
    if library is not None:
        for pattern, known_kind, known_name, known_detail in _LOST:
            if pattern.search(library):
                return {"kind": known_kind, "name": known_name, "detail": known_detail, "severity": "refuse"}
        name, detail = _package(library), f"a thread of {os.path.basename(library)}"
    detail += ", which a branch would not have; end what started it, then fork again"
    return {"kind": kind, "name": name, "detail": detail, "severity": "refuse"}


def _package(path):
    """The Python package that a library came with, or else its file name."""
    _, found, inside = path.rpartition("-packages/")
    return inside.split("/")[0] if found and "/" in inside else os.path.basename(path)
