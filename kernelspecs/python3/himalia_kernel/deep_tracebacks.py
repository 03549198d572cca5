"""Tracebacks are bounded, and those of exception groups are errors like all others.

IPython formats every frame. Code that has raised the limit on recursion makes a million of them, which takes minutes that no
interrupt ends. It prints the traceback of an exception group to standard error, so that the reply has none.
"""

import os
import traceback
import types

import IPython

# Frames of one exception that are looked at, half of them the outermost and half the innermost: in the mode `Context`, where most of them
# are only counted, and in the modes that format all of them.
COUNTED = 10_000
_FORMATTED = 200
# Exceptions in the chain of one that are looked at.
_CHAIN = 1000
# Lines of a group, half of them the first and half the last.
_LINES = 300


def install(shell):
    """Bound the tracebacks of a shell."""
    formatter = shell.InteractiveTB
    records, structured, show = formatter.get_records, formatter.structured_traceback, shell.showtraceback
    left_out = []

    def get_records(etb, *args, **kwargs):
        etb, count = shortened(etb, COUNTED if formatter.mode == "Context" else _FORMATTED)
        if count:
            left_out.append(count)
        return records(etb, *args, **kwargs)

    def structured_traceback(*args, **kwargs):
        left_out.clear()
        lines = structured(*args, **kwargs)
        return lines + [f"[{count} frames are left out]" for count in left_out]

    def showtraceback(exc_tuple=None, *args, **kwargs):
        if exc_tuple is None:
            kind, value, _ = shell._get_exc_info(None)
            if _has_group(value):
                shell._showtraceback(kind, value, _group_lines(shell, value))
                return
        show(exc_tuple, *args, **kwargs)

    formatter.get_records = get_records
    formatter.structured_traceback = structured_traceback
    shell.showtraceback = showtraceback


def shortened(entry, most):
    """A traceback of at most `most` frames, and how many are left out. The one that is given stays as it is."""
    length, last = 0, entry
    while last is not None:
        length, last = length + 1, last.tb_next
    if length <= most:
        return entry, 0
    head, tail = [], entry
    for _ in range(most // 2):
        head.append(tail)
        tail = tail.tb_next
    for _ in range(length - most):
        tail = tail.tb_next
    for frame in reversed(head):
        tail = types.TracebackType(tail, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return tail, length - most


def _has_group(problem):
    for _ in range(_CHAIN):
        if problem is None or isinstance(problem, BaseExceptionGroup):
            return problem is not None
        problem = problem.__cause__ or problem.__context__
    return False


def _group_lines(shell, problem):
    shown = traceback.TracebackException.from_exception(problem, limit=-_FORMATTED, compact=True)
    _name_cells(shell, shown)
    lines = "".join(shown.format()).splitlines()
    if len(lines) <= _LINES:
        return lines
    half = _LINES // 2
    return [*lines[:half], f"[{len(lines) - 2 * half} lines are left out]", *lines[-half:]]


def _name_cells(shell, shown):
    """Names cells in place of their files, and leaves out the frames of the shell."""
    own = os.path.dirname(IPython.__file__) + os.sep
    waiting = [shown]
    while waiting:
        one = waiting.pop()
        one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(own)]
        for frame in one.stack:
            label = shell.compile.format_code_name(frame.filename)
            if label is not None and label[0] == "Cell":
                frame.filename = f"Cell {label[1]}"
        waiting += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
