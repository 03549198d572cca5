"""Renews the main thread's event loop in a branch: the same object, with the user's tasks, timers and connections."""

import asyncio
import functools
import signal
import stat
from os import fstat

from tornado.ioloop import IOLoop

_KERNEL_MODULES = ("zmq.", "ipykernel.", "himalia_kernel.")
# The parent's selectors and wake-up sockets; their finalisers must not run here.
_LEFT_BEHIND = []


def renew(loop, streams):
    """Give `loop` a selector and wake-up sockets of its own. `streams`: connections that were cut from their peers.

    The user's transports on those, and on pipes, are registered again, so that they see the end. Other readers (a
    listening socket's, a datagram socket's, the kernel's own) are dropped, with what was about to be called for
    them: most do not know an end, and would be called again and again.
    """
    own = {loop._ssock.fileno(), loop._csock.fileno()}
    registered = list(loop._selector.get_map().values())
    _LEFT_BEHIND.append((loop._selector, loop._ssock, loop._csock, list(loop._ready)))

    kept = [handle for handle in loop._ready if not _is_kernels(handle)]
    loop._ready.clear()
    loop._ready.extend(kept)
    loop._selector = type(loop._selector)()
    loop._internal_fds = 0
    loop._make_self_pipe()
    signal.set_wakeup_fd(loop._csock.fileno() if getattr(loop, "_signal_handlers", None) else -1)
    # From Python 3.12 on a forked process has forgotten which loop is the main thread's.
    asyncio.set_event_loop(loop)

    tornado = IOLoop._ioloop_for_asyncio.get(loop)
    for other in list(IOLoop._ioloop_for_asyncio):
        if other is not loop:
            _abandon(other)
    for key in registered:
        if key.fd not in own and _is_transport(key) and (key.fd in streams or stat.S_ISFIFO(fstat(key.fd).st_mode)):
            loop._selector.register(key.fd, key.events, key.data)
        elif tornado is not None:
            tornado.handlers.pop(key.fd, None)
            tornado.readers.discard(key.fd)
            tornado.writers.discard(key.fd)


def _is_transport(key):
    callbacks = [getattr(handle, "_callback", None) for handle in key.data or ()]
    return any(isinstance(getattr(callback, "__self__", None), asyncio.BaseTransport) for callback in callbacks)


def _abandon(loop):
    """A loop of a thread that is not here: its tasks never end, which is nothing to complain of."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False
        _LEFT_BEHIND.append(task)


def _is_kernels(handle):
    """Whether a callback that was about to run belongs to the kernel's channels."""
    callback = _unwrapped(handle._callback)
    name = getattr(callback, "__name__", "")
    if name == "_run_callback" and handle._args:  # tornado's, around the real one
        callback = _unwrapped(handle._args[0])
    elif name == "_handle_events":
        return True
    return f"{getattr(callback, '__module__', '') or ''}.".startswith(_KERNEL_MODULES)


def _unwrapped(callback):
    while isinstance(callback, functools.partial):
        callback = callback.func
    return callback
