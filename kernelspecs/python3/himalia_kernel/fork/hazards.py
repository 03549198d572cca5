"""What in a live kernel would be missing, broken or hanging in a branch of it.

A hazard is `{"kind", "name", "detail", "severity"}`. `refuse`: the branch would hang or harm the parent, so there is
no fork. `warn`: something is not there in the branch, or is shared with the parent; policy `strict` refuses these too.
What is known to be handled (idle thread pools, OpenBLAS, Arrow, OpenMP of the main thread, sockets) is no hazard.
"""

import os
import stat
import sys
import threading

from himalia_kernel import children, plumbing
from himalia_kernel.errand import subshells
from himalia_kernel.fork import executors

_GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")


def survey(app):
    """All hazards but those of native threads, which `native` finds after the libraries were quiesced."""
    return [*_modes(app), *_threads(app), *_children(), *_mappings(), *_files()]


def _hazard(kind, name, detail, severity):
    return {"kind": kind, "name": str(name), "detail": detail, "severity": severity}


def _modes(app):
    kernel = app.kernel
    if kernel.eventloop is not None:
        yield _hazard("gui", kernel.eventloop, "a GUI event loop is integrated", "refuse")
    if app.trio_loop:
        yield _hazard("gui", "trio", "the trio event loop is used", "refuse")
    # A client that connects only asks about the debugger, which imports all of it but starts nothing.
    pydevd = sys.modules.get("_pydevd_bundle.pydevd_constants")
    if pydevd is not None and pydevd.get_global_debugger() is not None:
        yield _hazard("debugger", "debugpy", "the debugger was started", "refuse")
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        yield _hazard("gpu", "torch", "CUDA is initialised", "refuse")
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        yield _hazard("mpi", "mpi4py", "MPI is initialised", "refuse")


def _threads(app):
    ours = plumbing.service_threads(app) | set(subshells(app.kernel))
    for subshell in subshells(app.kernel):
        yield _hazard("subshell", subshell.name, "the branch does not have the subshell", "warn")
    for thread in threading.enumerate():
        if thread is threading.main_thread() or thread in ours or executors.is_idle_worker(thread):
            continue
        kind, detail, severity = _of_pool(thread)
        yield _hazard(kind, thread.name, detail, severity)


def _of_pool(thread):
    """What a Python thread that is not ours means for a branch."""
    owner = type(thread).__module__
    target = getattr(getattr(thread, "_target", None), "__qualname__", "")
    if owner.startswith("joblib.externals.loky"):
        return "process-pool", "joblib's worker processes stay with the parent; the branch starts its own", "warn"
    if owner.startswith("concurrent.futures.process"):
        return "process-pool", "a live ProcessPoolExecutor hangs in a branch", "refuse"
    if target.startswith("Pool._handle"):
        return "process-pool", "a live multiprocessing pool hangs in a branch", "refuse"
    return "python-thread", "the thread is missing in the branch; a lock that it holds stays locked", "warn"


def _children():
    pids = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as file:
                pids.update(map(int, file.read().split()))
        except OSError:
            continue
    workers = {}
    if "multiprocessing.process" in sys.modules:
        # Without polling them, which would be a side effect on the user's objects.
        workers = {process.pid: process for process in list(sys.modules["multiprocessing.process"]._children)}
    # Those of a fork server are no children of this process.
    pids.update(pid for pid in workers if os.path.exists(f"/proc/{pid}"))
    pids.difference_update(children.helpers())
    for pid in sorted(pids):
        worker = workers.get(pid)
        if worker is None:
            yield _hazard("child-process", pid, "the process stays the parent's child", "warn")
        elif type(worker).__module__.startswith("joblib.externals.loky"):
            continue  # named with the thread that manages it
        else:
            yield _hazard("multiprocessing", worker.name, "a live multiprocessing process", "refuse")


def _mappings():
    seen = set()
    semaphores = 0
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) < 6 or fields[1][:4] != "rw-s" or fields[5] in seen:
                continue
            seen.add(fields[5])
            if fields[5].startswith("/dev/shm/sem."):
                semaphores += 1
            elif fields[5].startswith(_GPU_DEVICES):
                yield _hazard("gpu", fields[5], "a graphics device is mapped", "refuse")
            else:
                yield _hazard("shared-memory", fields[5], "memory that parent and branch both write", "warn")
    if semaphores:
        yield _hazard("semaphores", semaphores, "semaphores that parent and branch both use", "warn")


def _files():
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
            if path.startswith(_GPU_DEVICES):
                yield _hazard("gpu", path, "a graphics device is open", "refuse")
            elif stat.S_ISREG(os.fstat(int(number)).st_mode):
                yield from _database(int(number), path)
        except OSError:
            continue


def _database(number, path):
    head = os.pread(number, 16, 0) if os.access(f"/proc/self/fd/{number}", os.R_OK) else b""
    if head[8:12] == b"DUCK":
        yield _hazard("database", path, "a DuckDB file may be open in one process only", "refuse")
    elif head.startswith(b"SQLite format 3"):
        yield _hazard("database", path, "an SQLite connection must not be used in both processes", "warn")
