"""The system calls that Python 3.11 has no function for. Each raises OSError with the name of the call."""

import ctypes
import errno
import os
import signal
import struct

CLONE_NEWNS = 0x20000
CLONE_NEWCGROUP = 0x2000000
CLONE_NEWUTS = 0x4000000
CLONE_NEWIPC = 0x8000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096

_MADV_COLLAPSE = 25
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_SECUREBITS = 28
_SECUREBITS_NO_ROOT_LOCKED = 0xEF
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_SOCK_FILTER_SIZE = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


def _checked(result, call):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def collapse(start, length):
    """Move memory of this process to huge pages. Whole ones, of Linux 6.1 and later."""
    _checked(_libc.madvise(start, length, _MADV_COLLAPSE), "madvise(MADV_COLLAPSE)")


def setns(descriptor, kind):
    """Enter the namespace of an open descriptor; `kind` is its `CLONE_NEW*`."""
    _checked(_libc.setns(descriptor, kind), "setns")


def unshare(kinds):
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(kinds), "unshare")


def mount(source, target, kind, flags, data=None):
    """mount(2); source, kind and data may be None."""
    source, target, kind, data = (text and text.encode() for text in (source, target, kind, data))
    _checked(_libc.mount(source, target, kind, flags, data), f"mount {target.decode()}")


def set_slice(thread, nanoseconds):
    """Set the time slice of a thread, 0 for the default. Linux 6.12 and later use it. `thread` is an id, 0 for this one."""
    number = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine)
    if number is None:
        return
    # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period, utilisation.
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    attr = struct.pack("=IIQiIQQQII", 56, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0, 0, 0)
    _checked(_libc.syscall(number, thread, ctypes.create_string_buffer(attr, len(attr)), 0), "sched_setattr")


def join_new_session_keyring():
    """Drop the keys of the user who started this process. Nothing happens where there are no keyrings."""
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if number is None or _libc.syscall(number, 1, None, None, None, None) >= 0:
        return
    if ctypes.get_errno() != errno.ENOSYS:
        _checked(-1, "keyctl")


def lock_securebits():
    """Let user id 0 mean nothing, permanently."""
    _checked(_libc.prctl(_PR_SET_SECUREBITS, _SECUREBITS_NO_ROOT_LOCKED, 0, 0, 0), "prctl(PR_SET_SECUREBITS)")


def become_subreaper():
    """Become the parent of all descendants whose parents end."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_with_parent():
    """Be killed when the process that is the parent now ends. A change of the user undoes it."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def become_dumpable():
    """Own the files in /proc/self again, which go to root when a process changes its user."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")


def drop_bounding_set():
    """Let no program that is run later gain a capability."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        _checked(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl(PR_CAPBSET_DROP)")


def drop_capabilities():
    """Give up all capabilities of this process."""
    _checked(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl(PR_CAP_AMBIENT)")
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0))
    _checked(_libc.capset(header, ctypes.create_string_buffer(24)), "capset")


def no_new_privileges():
    """Let set-user-id programs run without the rights of their owner."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def load_filter(program):
    """Load a seccomp filter: the bytes of an array of `struct sock_filter`. Needs `no_new_privileges` before."""
    count, rest = divmod(len(program), _SOCK_FILTER_SIZE)
    if rest or not count:
        raise ValueError("the seccomp program is no array of sock_filter")
    array = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", count, ctypes.addressof(array)))
    _checked(
        _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0), "prctl(PR_SET_SECCOMP)"
    )
