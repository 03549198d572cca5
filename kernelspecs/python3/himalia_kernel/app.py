"""The kernel application: ipykernel's, with the additions put in before any socket is bound."""

import os

import zmq

# Its exit handler frees the memory of messages on their way; imported first, it runs after the sockets have lingered.
import zmq.utils.garbage  # noqa: F401
from ipykernel import kernelapp
from traitlets import Any, DottedObjectName, default

from himalia_kernel.iopub import SEND_TIMEOUT_MS, BoundedIOPubThread
from himalia_kernel.records import keep_no_outputs

# Messages that may wait in ZeroMQ for one slow subscriber. The mark counts messages, not bytes, and a message of
# text has at most `stream.PIECE` characters, so ZeroMQ holds about 16 MB of text; its default of 1000 would hold 250.
IOPUB_HIGH_WATER_MARK = 64
# How long an ending kernel waits for its last output to be read, milliseconds.
IOPUB_LINGER_MS = 3000


class HimaliaKernelApp(kernelapp.IPKernelApp):
    """`IPKernelApp` whose publisher waits instead of dropping, and whose output streams are bounded.

    Without `JPY_PARENT_PID` in its environment the kernel does not watch for a parent and lives until it is told to
    stop or is killed: whoever started it may be restarted. With it, as jupyter_client sets it, it ends with that
    parent, as plain ipykernel does.
    """

    outstream_class = DottedObjectName("himalia_kernel.stream.BoundedOutStream", allow_none=True).tag(config=True)

    # A trait of the base class that is resolved at start, for a client that no kernel makes.
    blocking_class = Any()

    @default("blocking_class")
    def _blocking_client(self):
        import jupyter_client

        return jupyter_client.BlockingKernelClient

    @default("parent_handle")
    def _no_parent(self):
        return int(os.environ.get("JPY_PARENT_PID") or 0)

    def _bind_socket(self, s, port):
        if s.type in (zmq.PUB, zmq.XPUB):
            s.setsockopt(zmq.XPUB_NODROP, 1)
            s.setsockopt(zmq.SNDHWM, IOPUB_HIGH_WATER_MARK)
            s.setsockopt(zmq.SNDTIMEO, SEND_TIMEOUT_MS)
            s.setsockopt(zmq.LINGER, IOPUB_LINGER_MS)
        return super()._bind_socket(s, port)

    def init_iopub(self, context):
        """Make the IOPub thread: the bounded one, by the name that ipykernel makes it by."""
        kernelapp.IOPubThread = BoundedIOPubThread
        super().init_iopub(context)

    def init_kernel(self):
        """Make the kernel, with its input history in memory unless the user's IPython configuration says where.

        On disk it would be one file for all kernels of a user: slow to open, locked by others, and readable by them.
        """
        if "hist_file" not in self.config.HistoryManager:
            self.config.HistoryManager.hist_file = ":memory:"
        super().init_kernel()

    def init_shell(self):
        """Adopt the kernel's shell."""
        super().init_shell()
        if self.shell is not None:
            keep_no_outputs(self.shell)

    def log_connection_info(self):
        """Record the ports. ipykernel also prints how to attach by hand, which has no reader here."""
        self._ports = {
            "shell": self.shell_port,
            "iopub": self.iopub_port,
            "stdin": self.stdin_port,
            "hb": self.hb_port,
            "control": self.control_port,
        }
