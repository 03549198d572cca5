"""The kernel application: ipykernel's, with the additions put in before any socket is bound."""

import os

import zmq

# Its exit handler frees the memory of messages on their way; imported first, it runs after the sockets have lingered.
import zmq.utils.garbage  # noqa: F401
from ipykernel import kernelapp
from traitlets import Any, Bool, DottedObjectName, Type, default

from himalia_kernel import (
    bash,
    charts,
    commands,
    deep_tracebacks,
    e2b,
    frames,
    leaving,
    packages,
    places,
    plumbing,
    preload,
    scaled,
    summaries,
    tracebacks,
    warned,
    wire_text,
    working_directory,
)
from himalia_kernel.iopub import SEND_TIMEOUT_MS, BoundedIOPubThread
from himalia_kernel.records import keep_no_outputs

# Messages that may wait in ZeroMQ for one slow subscriber. The mark counts messages, not bytes, and a message of
# text has at most `stream.PIECE` characters, so ZeroMQ holds about 16 MB of text; its default of 1000 would hold 250.
IOPUB_HIGH_WATER_MARK = 64
# How long an ending kernel waits for its last output to be read, milliseconds.
IOPUB_LINGER_MS = 3000


class HimaliaKernelApp(kernelapp.IPKernelApp):
    """`IPKernelApp` whose publisher waits instead of dropping, and whose output streams are bounded.

    It is made in two steps, so that the first can be shared by many kernels. The *embryo* is the application, the
    kernel and the shell, without a socket, a ZeroMQ context, an event loop or a thread. *Plumbing* gives it those:
    at once in a kernel of its own, after a fork in one from a zygote, and once more in a branch of a live kernel.

    Without `JPY_PARENT_PID` in its environment the kernel does not watch for a parent and lives until it receives a request to
    stop or is killed: the process that started it may be restarted. With it, as jupyter_client sets it, it ends with that
    parent, as plain ipykernel does.
    """

    # Leave the plumbing for later, and the user's startup files out.
    embryo = Bool(False)

    kernel_class = Type("himalia_kernel.kernel.HimaliaKernel", klass="ipykernel.kernelbase.Kernel").tag(config=True)
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

    # Steps of `initialize` that belong to the plumbing.

    def init_connection_file(self):
        """Read the connection file, which an embryo does not have yet."""
        if not self.embryo:
            super().init_connection_file()

    def init_sockets(self):
        """Nothing: see `plumb`."""

    init_heartbeat = write_connection_file = init_io = init_sockets

    def log_connection_info(self):
        """Record the ports. ipykernel also prints how to attach by hand, which has no reader here."""
        self._ports = {
            "shell": self.shell_port,
            "iopub": self.iopub_port,
            "stdin": self.stdin_port,
            "hb": self.hb_port,
            "control": self.control_port,
        }

    def init_kernel(self):
        """Make the kernel, with its input history in memory unless the user's IPython configuration says where.

        On disk it would be one file for all kernels of a user: slow to open, locked by others, and readable by them.
        """
        if "hist_file" not in self.config.HistoryManager:
            self.config.HistoryManager.hist_file = ":memory:"
        if self.session.packer == "json":
            self.session.pack = wire_text.pack
        if not self.embryo:
            self.open_channels()
            super().write_connection_file()
            self.redirect_output()
        self.kernel = self.kernel_class.instance(
            parent=self, session=self.session, log=self.log, profile_dir=self.profile_dir, user_ns=self.user_ns
        )
        if not self.embryo:
            plumbing.connect(self)

    def init_path(self):
        super().init_path()
        working_directory.make_importable(self)

    def init_shell(self):
        """Adopt the kernel's shell."""
        super().init_shell()
        if self.shell is not None:
            keep_no_outputs(self.shell)
            places.show_neutral(self.shell)
            tracebacks.install(self.shell)
            deep_tracebacks.install(self.shell)
            leaving.install(self.shell)
            warned.install(self.shell)
            self.kernel.watch(self.shell)
            packages.serve(self.shell)
            bash.install(self.shell)
            commands.end_input()
            charts.install(self.shell.display_formatter)
            charts.show_once(self.shell)
            frames.install(self.shell.display_formatter)
            scaled.install(self.shell.display_formatter)
            e2b.install(self.shell.display_formatter)
            summaries.install(self.shell)

    def init_gui_pylab(self):
        """Choose the plotting backend, and load it if pyplot is loaded already."""
        super().init_gui_pylab()
        preload.choose_plot_backend()

    def init_code(self):
        """Run the startup files of the user's IPython profile; none in an embryo."""
        if self.embryo:
            self.shell.user_ns_hidden.update(self.shell.user_ns)
        else:
            super().init_code()

    # The parts of the plumbing that are ipykernel's own.

    def open_channels(self):
        """Make the ZeroMQ context, the sockets and the IOPub and heartbeat threads, from the connection info."""
        self.context = None
        super().init_sockets()
        super().init_heartbeat()
        self.log_connection_info()

    def redirect_output(self):
        """Put the output streams in the place of `sys.stdout` and `sys.stderr`. Once in the life of a process."""
        super().init_io()

    def init_iopub(self, context):
        """Make the IOPub thread: the bounded one, by the name that ipykernel makes it by."""
        kernelapp.IOPubThread = BoundedIOPubThread
        super().init_iopub(context)

    def configure_tornado_logger(self):
        """Give tornado's logger a handler; once, however often the sockets are made."""
        if not plumbing.is_connected_again(self):
            super().configure_tornado_logger()

    def _bind_socket(self, s, port):
        if s.type in (zmq.PUB, zmq.XPUB):
            s.setsockopt(zmq.XPUB_NODROP, 1)
            s.setsockopt(zmq.SNDHWM, IOPUB_HIGH_WATER_MARK)
            s.setsockopt(zmq.SNDTIMEO, SEND_TIMEOUT_MS)
            s.setsockopt(zmq.LINGER, IOPUB_LINGER_MS)
        return super()._bind_socket(s, port)

    def start(self):
        """Serve until the kernel is shut down; a branch of it unwinds to here and serves in its own process."""
        from himalia_kernel.fork.branch import BranchStarted

        while True:
            try:
                super().start()
                return
            except BranchStarted as started:
                branch = started
            # Outside of the handler, so that the branch does not carry its parent's frames as an exception context.
            branch.take_over(self)
            del branch

    def close(self):
        """Close the channels, unless that was done already: every making of them registers this to run at exit."""
        if self.context is not None and not self.context.closed:
            super().close()
