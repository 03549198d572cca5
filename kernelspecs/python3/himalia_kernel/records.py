"""Keeps IPython from keeping a second copy of all output.

IPython 9 records what every cell prints and displays, for the `%notebook` magic: a kernel that prints 1 GB holds 1 GB.
The gateway's journal is that record, with a quota. So `%notebook` of this kernel writes the inputs only.
"""

import contextlib
from collections import defaultdict


class _NotKept(defaultdict):
    """The outputs by execution count, always empty."""

    def __init__(self):
        super().__init__(list)

    def __missing__(self, key):
        return []


def keep_no_outputs(shell):
    """Stop the recording in one shell. The class stays as it is: programs recognise a notebook by its name."""
    if hasattr(shell, "_tee"):
        shell._tee = lambda channel: contextlib.nullcontext()
    if hasattr(shell.history_manager, "outputs"):
        shell.history_manager.outputs = _NotKept()
