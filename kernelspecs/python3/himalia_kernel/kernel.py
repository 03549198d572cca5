"""The kernel: IPython's, with prompt interrupts, requests of the gateway's own on the control channel, and observed executions."""

import asyncio
import contextvars
import os
import sys
import threading

from himalia_kernel import children
from himalia_kernel.interrupt import InterruptibleKernel
from himalia_kernel.observer import KEY, Observer
from himalia_kernel.stream import take_written

BIND_REQUEST = "himalia_bind_request"
FORK_REQUEST = "himalia_fork_request"
VARIABLES_REQUEST = "himalia_variables_request"
_OWN_REQUESTS = (BIND_REQUEST, FORK_REQUEST, VARIABLES_REQUEST)


class HimaliaKernel(InterruptibleKernel):
    """The kernel that can be bound to a session late, and forked.

    None of the requests leaves a trace: no busy or idle status on IOPub, no input history, no execution count.
    """

    control_msg_types = [*InterruptibleKernel.control_msg_types, *_OWN_REQUESTS]

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.observer = Observer(self)
        self._desk = None
        # The context of all cells, which a branch has a copy of.
        self._cells = None
        self._process = None

    def start(self):
        """Begin to serve, in this process."""
        self._process = os.getpid()
        if self._cells is None:
            self._cells = contextvars.copy_context()
        super().start()

    async def shell_main(self, subshell_id, msg):
        """Handle a message; one of the main shell in the context of all cells."""
        handling = super().shell_main(subshell_id, msg)
        return await (handling if subshell_id is not None else asyncio.create_task(handling, context=self._cells))

    async def do_execute(self, code, silent, *args, **kwargs):
        """Execute, observed unless it is silent. What the code sets in context variables holds in the next cell."""
        try:
            reply = await self._run_observed(code, silent, *args, **kwargs)
        finally:
            self.keep_context()
            take_written()
        if os.getpid() != self._process:
            _end_fork(reply)
        return reply

    async def _run_observed(self, code, silent, *args, **kwargs):
        self.observer.begin(None if silent else code)
        asked = (self.get_parent("shell").get("metadata") or {}).get(KEY)
        if not asked:
            return await super().do_execute(code, silent, *args, **kwargs)
        from himalia_kernel.scope import Scope

        try:
            scope = Scope(asked, self.observer.directory or "")
            scope.enter()
        except (OSError, ValueError) as problem:
            return self._refused(problem)
        try:
            return await super().do_execute(code, silent, *args, **kwargs)
        finally:
            scope.leave()

    def _refused(self, problem):
        """The content of a reply for code that was not run, since what it should have around it is not there."""
        text = str(problem)
        raised = {"ename": type(problem).__name__, "evalue": text, "traceback": [f"{type(problem).__name__}: {text}"]}
        self.send_response(self.iopub_socket, "error", raised)
        count = self.shell.execution_count
        return {"status": "error", "execution_count": count, "user_expressions": {}, "payload": [], **raised}

    def finish_metadata(self, parent, metadata, reply_content):
        """Add what was observed to the metadata of an execution's reply."""
        metadata = super().finish_metadata(parent, metadata, reply_content)
        report = self.observer.finish()
        if report is not None:
            metadata[KEY] = report
        return metadata

    def _process_children(self):
        """The processes that a shutdown ends, and waits for. A resource tracker ignores the signals, and ends by itself."""
        return [process for process in super()._process_children() if process.pid not in children.helpers()]

    def himalia_bind_request(self, stream, ident, parent):
        """Apply an environment and a working directory; see `himalia_kernel.bind`."""
        from himalia_kernel import bind

        bind.handle(self, parent["content"], self._answer("himalia_bind_reply", stream, ident, parent))

    def himalia_fork_request(self, stream, ident, parent):
        """Fork this kernel; see `himalia_kernel.fork`."""
        from himalia_kernel.fork import request

        request.handle(self, parent["content"], self._answer("himalia_fork_reply", stream, ident, parent))

    def himalia_variables_request(self, stream, ident, parent):
        """Tell about the user's variables; see `himalia_kernel.variables`."""
        if self._desk is None:
            from himalia_kernel.variables import Desk

            self._desk = Desk(self)
        self._desk.handle(parent["content"], self._answer("himalia_variables_reply", stream, ident, parent))

    def _answer(self, kind, stream, ident, parent):
        """A function that sends the reply's content from any thread, later than the handler's return."""
        loop = self.control_thread.io_loop

        def answer(content, buffers=None):
            loop.add_callback(self.session.send, stream, kind, content, parent, ident=ident, buffers=buffers)

        return answer

    def _publish_status(self, status, channel, parent=None):
        if channel == "control":
            header = (parent or self.get_parent("control")).get("header", {})
            if header.get("msg_type") in _OWN_REQUESTS:
                return
        super()._publish_status(status, channel, parent)


def _end_fork(reply):
    """In a process that a cell has made by `os.fork`: the cell has ended, and with it the process, as at the end of a script."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0 if reply["status"] == "ok" else 1)
