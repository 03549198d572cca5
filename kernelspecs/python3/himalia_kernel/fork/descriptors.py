"""Cuts what a branch shares with its parent through open descriptors.

A descriptor is never just closed: an object of the parent's may close its number later, when something new has got it.
Its number is kept, with something harmless behind it.
"""

import fcntl
import os
import socket
import stat

_STANDARD = 2
_CREATION_FLAGS = os.O_CREAT | os.O_EXCL | os.O_TRUNC


def sever(keep):
    """Cut all descriptors but the standard ones and those in `keep`. Returns those that were streams.

    * epoll sets, eventfds, timers, inotify and the like become /dev/null: an `epoll_ctl` here would edit the parent's set;
    * sockets become the end of a connection whose other end is closed: a reader sees the end and reconnects;
    * regular files are opened again, for a position of their own;
    * pipes and devices stay shared.
    """
    ended, other = socket.socketpair()
    other.close()
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    spared = {*keep, ended.fileno(), null}
    streams = set()
    for number in sorted(int(name) for name in os.listdir("/proc/self/fd")):
        if number <= _STANDARD or number in spared:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
            mode = os.fstat(number).st_mode
        except OSError:
            continue  # the listing's own
        if target.startswith("anon_inode:") and "pidfd" not in target:
            os.dup2(null, number, inheritable=False)
        elif stat.S_ISSOCK(mode):
            if _is_stream(number):
                streams.add(number)
            os.dup2(ended.fileno(), number, inheritable=False)
        elif stat.S_ISREG(mode):
            _reopen(number)
    os.close(null)
    ended.close()
    return streams


def _is_stream(number):
    """Whether a socket is one end of a connection of bytes: one whose reader understands an end."""
    try:
        found = socket.socket(fileno=number)
    except OSError:
        return False
    try:
        return found.type == socket.SOCK_STREAM and not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    finally:
        found.detach()


def _reopen(number):
    """Give a regular file an offset of its own. One that cannot be opened again stays shared."""
    flags = fcntl.fcntl(number, fcntl.F_GETFL)
    if flags & os.O_PATH:
        return
    try:
        fresh = os.open(f"/proc/self/fd/{number}", (flags & ~_CREATION_FLAGS) | os.O_CLOEXEC)
    except OSError:
        return
    os.lseek(fresh, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
    os.dup2(fresh, number, inheritable=os.get_inheritable(number))
    os.close(fresh)
