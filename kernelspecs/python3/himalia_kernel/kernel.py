"""The kernel: IPython's, with prompt interrupts and two requests of the gateway's own on the control channel."""

from himalia_kernel.interrupt import InterruptibleKernel

BIND_REQUEST = "himalia_bind_request"
FORK_REQUEST = "himalia_fork_request"


class HimaliaKernel(InterruptibleKernel):
    """The kernel that can be bound to a session late, and forked.

    Neither request leaves a trace: no busy or idle status on IOPub, no input history, no execution count.
    """

    control_msg_types = [*InterruptibleKernel.control_msg_types, BIND_REQUEST, FORK_REQUEST]

    def himalia_bind_request(self, stream, ident, parent):
        """Apply an environment and a working directory; see `himalia_kernel.bind`."""
        from himalia_kernel import bind

        bind.handle(self, parent["content"], self._answer("himalia_bind_reply", stream, ident, parent))

    def himalia_fork_request(self, stream, ident, parent):
        """Fork this kernel; see `himalia_kernel.fork`."""
        from himalia_kernel.fork import request

        request.handle(self, parent["content"], self._answer("himalia_fork_reply", stream, ident, parent))

    def _answer(self, kind, stream, ident, parent):
        """A function that sends the reply's content from any thread, later than the handler's return."""
        loop = self.control_thread.io_loop

        def answer(content):
            loop.add_callback(self.session.send, stream, kind, content, parent, ident=ident)

        return answer

    def _publish_status(self, status, channel, parent=None):
        if channel == "control":
            header = (parent or self.get_parent("control")).get("header", {})
            if header.get("msg_type") in (BIND_REQUEST, FORK_REQUEST):
                return
        super()._publish_status(status, channel, parent)
