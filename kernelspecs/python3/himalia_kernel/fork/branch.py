"""In the branch: from the fork to a kernel that serves its own channels."""

import json
import os
import sys
import time
import traceback

from himalia_kernel import adoption, entropy, environment, plumbing
from himalia_kernel.fork import descriptors, executors, inherited, loops


class BranchStarted(SystemExit):
    """Raised in the branch, right after the fork, to unwind its stack.

    Of all exceptions asyncio lets only `SystemExit` and `KeyboardInterrupt` leave a callback and its loop.
    """

    def __init__(self, wanted, report, workers):
        super().__init__(1)
        self.wanted = wanted
        self.report = report
        self.workers = workers

    def take_over(self, app):
        """Make this process a kernel of its own, and say so to the parent. If that fails the process ends."""
        started = time.perf_counter()
        try:
            self._settle(app)
            self.tell({"ready_ms": round(1000 * (time.perf_counter() - started), 1)})
            os.close(self.report)
        except BaseException as problem:
            self.fail(problem)

    def fail(self, problem):
        """End the process, telling the parent and the raw stderr why."""
        try:
            raw = getattr(sys.stderr, "_original_stdstream_copy", 2)
            os.write(raw, "".join(traceback.format_exception(problem)).encode())
            self.tell({"error": f"{type(problem).__name__}: {problem}"})
        finally:
            os._exit(1)

    def tell(self, content):
        """Report to the parent."""
        try:
            os.write(self.report, json.dumps(content).encode() + b"\n")
        except BrokenPipeError:
            pass  # the parent is gone, which is no reason to end

    def _settle(self, app):
        wanted = self.wanted
        adoption.end_with(wanted.parent_pid)
        loop = app.kernel.io_loop.asyncio_loop
        loops.renew(loop, descriptors.sever(keep=(self.report,)))
        executors.revive(loop, self.workers)
        inherited.disown(app)
        entropy.reseed()
        environment.apply(app, wanted.env, wanted.unset, wanted.cwd)
        plumbing.plumb(app, wanted.connection_file)
