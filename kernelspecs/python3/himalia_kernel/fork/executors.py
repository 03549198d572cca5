"""Thread pools: a branch has no worker threads, but their pools start new ones when they are asked to."""

import concurrent.futures.thread as pools
import queue
import sys
import threading


def is_idle_worker(thread):
    """Whether a thread is a worker of a `ThreadPoolExecutor` and waits for work."""
    if thread not in pools._threads_queues or not pools._threads_queues[thread].empty():
        return False
    frame = sys._current_frames().get(thread.ident)
    return frame is not None and frame.f_code is pools._worker.__code__


def workers():
    """The worker threads of all pools. To be asked before the fork: from Python 3.14 on a forked process has no list."""
    return list(pools._threads_queues)


def revive(loop, workers):
    """In the branch: make every pool believe that it has not started a worker yet. `workers`: those of the parent."""
    loop._default_executor = None
    for thread in workers:
        arguments = getattr(thread, "_args", None)
        executor = arguments[0]() if arguments else None
        if executor is not None:
            executor._threads = set()
            executor._work_queue = queue.SimpleQueue()
            executor._idle_semaphore = threading.Semaphore(0)
            executor._shutdown_lock = threading.Lock()
    pools._threads_queues.clear()
