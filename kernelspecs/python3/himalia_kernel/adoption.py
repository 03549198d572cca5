"""Makes a kernel that was forked twice end with the shim, as one that the shim executed does."""

import os
import time

from himalia_kernel import libc

# How long the process between may take to end.
_PATIENCE_S = 2.0
_LOOK_AGAIN_S = 0.001


def checked(content):
    """The `parent_pid` of a request, or None: whose child the new kernel becomes. ValueError if it is no pid."""
    pid = content.get("parent_pid")
    if pid is not None and (not isinstance(pid, int) or pid < 1):
        raise ValueError("parent_pid: a process id is needed")
    return pid


def end_with(parent):
    """Wait until this process is a child of `parent`, and be killed when that ends. With None nothing happens.

    Raises ChildProcessError if it does not become one, because the parent has ended or is no subreaper.
    """
    if parent is None:
        return
    deadline = time.monotonic() + _PATIENCE_S
    while os.getppid() != parent:
        if time.monotonic() >= deadline:
            raise ChildProcessError(f"process {parent} did not become the parent")
        time.sleep(_LOOK_AGAIN_S)
    libc.end_with_parent()
    if os.getppid() != parent:
        raise ChildProcessError(f"process {parent} has ended")
