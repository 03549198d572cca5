"""What the kernel itself says about an execution, in the metadata of its reply under `himalia`.

`{"variables": {"added", "changed", "removed", "truncated"}, "files": {"written", "truncated"}}`, and for one that failed
`"error": {"line", "source", "cell", "hint"}`; for a `%%bash` cell that came to its end `"exit_code"` instead. Besides, `"usage"` (see `usage`),
`"artifacts"`, files that were to be kept and are not (see `artifacts`), and `"packages"`, a hash of what is installed when it ends (see
`installed`). A part that could not be made is left out. Silent executions have none.
"""

import contextlib
import contextvars
import os
import time

from himalia_kernel import bash, files
from himalia_kernel.artifacts import Artifacts
from himalia_kernel.installed import Installed
from himalia_kernel.interrupt import interrupts_dropped
from himalia_kernel.ledger import Ledger
from himalia_kernel.usage import Meter

KEY = "himalia"
_CURRENT = contextvars.ContextVar("himalia_execution", default=None)
_SHORT = 200  # characters of code that are looked at to see that it does nothing


class _Execution:
    """What is known of an execution while it runs."""

    def __init__(self, code):
        self.code = code
        self.result = None
        self.exit_code = None
        self.started = time.monotonic()
        self.stamp = files.stamp()
        self.meter = Meter()


class Observer:
    """Watches the executions of one kernel."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._ledger = Ledger(kernel.shell)
        self._walker = files.Walker()
        self._artifacts = Artifacts(kernel)
        self._installed = Installed()
        # Whose files are reported: the directory that the kernel was started in or bound to.
        self.directory = None
        kernel.shell.events.register("post_run_cell", _remember)

    def begin(self, code):
        """An execution begins in this context. `code`: None for one that is not observed."""
        _CURRENT.set(None if code is None else _Execution(code))
        if self.directory is None:
            with contextlib.suppress(OSError):  # it was removed
                self.directory = os.getcwd()
        self._artifacts.prepare(self.directory)

    def exited(self, code):
        """The script of the execution of this context ended with an exit code."""
        execution = _CURRENT.get()
        if execution is not None:
            execution.exit_code = code

    def finish(self):
        """The execution of this context has ended. Returns what there is to say about it, or None."""
        execution = _CURRENT.get()
        if execution is None:
            return None
        _CURRENT.set(None)
        # An interrupt is for the cell, which has ended; raised here it would cost the reply.
        with interrupts_dropped():
            return self._report(execution)

    def _report(self, execution):
        # First of all: what is looked at after that is not the caller's doing.
        report = {"usage": execution.meter.read()}
        idle = _does_nothing(execution.code)
        looks = (
            ("error", self._error),
            ("variables", self._variables),
            ("files", self._files),
            ("artifacts", self._kept),
            ("packages", self._packages),
        )
        for key, look in looks:
            try:
                found = look(execution, idle)
            except Exception:  # whatever it is, the reply goes out
                self._kernel.log.debug("no %s of an execution", key, exc_info=True)
                continue
            if found is not None:
                report[key] = found
        if execution.exit_code is not None and bash.is_cell(execution.code):
            report["exit_code"] = execution.exit_code
        return report

    def _error(self, execution, _idle):
        if execution.result is None or execution.result.success or bash.is_cell(execution.code):
            return None
        from himalia_kernel import hints  # loaded when first needed, as the start of a kernel should be quick

        return hints.of(self._kernel.shell, execution.result)

    def _variables(self, execution, idle):
        if idle:
            return {"added": [], "changed": [], "removed": [], "truncated": False}
        return self._ledger.update(execution.code)

    def _packages(self, _execution, _idle):
        return self._installed.digest()

    def _files(self, execution, idle):
        if self.directory is None:
            return None
        if idle:
            return {"written": [], "truncated": False}
        return self._walker.written(self.directory, execution.stamp, files.budget(time.monotonic() - execution.started))

    def _kept(self, execution, idle):
        if idle or self.directory is None:
            return None
        return self._artifacts.send(self.directory, execution.stamp)


def _remember(result):
    execution = _CURRENT.get()
    if execution is not None:
        execution.result = result


def _does_nothing(code):
    """Whether code can be seen to do nothing at a glance."""
    if len(code) > _SHORT:
        return False
    return all(line in ("", "pass") or line.startswith("#") for line in map(str.strip, code.splitlines()))
