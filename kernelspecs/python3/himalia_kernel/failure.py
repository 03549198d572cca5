"""Where an execution failed: the last frame of the traceback that belongs to a cell."""

import linecache

from himalia_kernel import statics

# Frames of a traceback that are walked through, and characters of a source line.
_FRAMES = 100_000
_LINE = 500

_traceback_of = BaseException.__dict__["__traceback__"].__get__


class Failure:
    """A failed execution: the exception, and the place in a cell.

    `line` counts from 1 in the cell as the user wrote it, `source` is that line; `cell` is the execution count of the
    cell, which is an earlier one when a function of it failed. `frame` is None for a syntax error. `compiled` is the
    text that was compiled, and the line in that.
    """

    def __init__(self, problem):
        self.problem = problem
        self.frame = None
        self.line = None
        self.source = None
        self.cell = None
        self.compiled = ("", 0)


def locate(shell, result):
    """The failure of an `ExecutionResult`, or None if there is none. `line` is None where no cell is concerned."""
    problem = result.error_before_exec if result.error_before_exec is not None else result.error_in_exec
    if problem is None:
        return None
    failure = Failure(problem)
    filename, line, failure.frame = _place(shell, problem)
    if filename is None:
        return failure
    failure.cell = _cell(shell, filename)
    lines = [text.rstrip("\n") for text in linecache.getlines(filename)]
    failure.compiled = ("\n".join(lines), line)
    failure.line, failure.source = line, lines[line - 1] if 0 < line <= len(lines) else ""
    if failure.cell == (result.execution_count or shell.execution_count):
        # Magics were replaced and leading empty lines left out before the cell was compiled.
        written = result.info.raw_cell.splitlines()
        leading = next((n for n, text in enumerate(written) if text.strip()), 0)
        if len(written) - leading == len(lines) and 0 < line <= len(lines):
            failure.line, failure.source = line + leading, written[line + leading - 1]
    failure.source = failure.source[:_LINE]
    return failure


def _cell(shell, filename):
    """The execution count of the cell that was compiled under a name, or None if none was."""
    label = shell.compile.format_code_name(filename)
    if label is None or label[0] != "Cell":
        return None
    return int(label[1].removeprefix("In[").removesuffix("]"))


def _place(shell, problem):
    """The file, the line and the frame of the failure, each None if it is in no cell."""
    if statics.is_instance(problem, SyntaxError):
        filename, line = SyntaxError.filename.__get__(problem), SyntaxError.lineno.__get__(problem)
        if type(filename) is str and type(line) is int and _cell(shell, filename) is not None:
            return filename, line, None
    place = (None, None, None)
    entry = _traceback_of(problem)
    for _ in range(_FRAMES):
        if entry is None:
            break
        if _cell(shell, entry.tb_frame.f_code.co_filename) is not None:
            place = (entry.tb_frame.f_code.co_filename, entry.tb_lineno, entry.tb_frame)
        entry = entry.tb_next
    return place
