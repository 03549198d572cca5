"""Connects a kernel that exists to sockets, threads and streams that were just made.

Objects that user code may hold (the kernel, the shell, the session, `sys.stdout`, the socket that publishes) stay the
same ones; what is inside them is replaced.
"""

import os
import sys
import threading
import uuid

from ipykernel.iostream import OutStream
from zmq.eventloop.zmqstream import ZMQStream

from himalia_kernel.wakeup import Wakeup

# What was replaced, kept for good in the process that replaced it: after a fork these belong to the parent, and no
# finaliser of theirs may run here.
_REPLACED = []


def is_connected_again(app):
    """Whether this application was connected before, in this process or in the one that it was forked from."""
    return app.kernel is not None and app.kernel.shell_stream is not None


def adopt_connection_file(app, path):
    """Take ports, address and keys from a connection file, whatever the application had before."""
    app.connection_file = str(path)
    for port in ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"):
        setattr(app, port, 0)
    for key in ("curve_publickey", "curve_secretkey"):
        if hasattr(app, key):
            setattr(app, key, None)
    app.load_connection_file(str(path))


def plumb(app, path):
    """Give an embryo, or the copy of a kernel in a forked process, its own channels. `path`: its connection file."""
    _REPLACED.append([{**thing.__dict__, **thing._trait_values} for thing in (app, app.kernel)])
    adopt_connection_file(app, path)
    _renew_session(app.session)
    published_by = app.iopub_socket
    app.open_channels()
    if published_by is None:
        app.redirect_output()
        app.displayhook.get_execution_count = lambda: app.kernel.execution_count
        app.kernel._stdout, app.kernel._stderr = sys.stdout, sys.stderr
    else:
        app.iopub_socket = _move_publisher(published_by, app.iopub_thread)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, OutStream):
                stream.move_to(app.iopub_thread)
    connect(app)


def connect(app):
    """Hand the application's sockets and threads to its kernel, and start the threads."""
    kernel = app.kernel
    shell_stream = ZMQStream(app.shell_socket, app.shell_channel_thread.io_loop)
    app.shell_channel_thread.shell_stream = shell_stream
    kernel.shell_stream = shell_stream
    kernel.control_stream = ZMQStream(app.control_socket, app.control_thread.io_loop)
    kernel.debugpy_stream = ZMQStream(app.debugpy_socket, app.control_thread.io_loop)
    kernel.debug_shell_socket = app.debug_shell_socket
    kernel.stdin_socket = app.stdin_socket
    kernel.iopub_thread = app.iopub_thread
    kernel.iopub_socket = app.iopub_socket
    kernel.control_thread = app.control_thread
    kernel.shell_channel_thread = app.shell_channel_thread
    kernel.wakeup = Wakeup(kernel)
    app.control_thread.start()
    app.shell_channel_thread.start()

    kernel.ident = str(uuid.uuid4())
    kernel.processes = {}
    kernel._shutdown_message = None
    kernel._aborting = False
    kernel.record_ports({f"{name}_port": port for name, port in app._ports.items()})
    app.displayhook.get_execution_count = lambda: kernel.execution_count
    shell = kernel.shell
    for publisher in (app.displayhook, shell.displayhook, shell.display_pub):
        publisher.session = app.session
        publisher.pub_socket = app.iopub_socket
    shell.displayhook.topic = kernel._topic("execute_result")
    if getattr(kernel, "debugger", None) is not None:
        kernel.debugger = type(kernel.debugger)(
            kernel.log,
            kernel.debugpy_stream,
            kernel._publish_debug_event,
            kernel.debug_shell_socket,
            app.session,
            kernel._kernel_modules,
            kernel.debug_just_my_code,
            kernel.filter_internal_frames,
        )


def _renew_session(session):
    """A wire session of this process's own. The key came with the connection file."""
    session.session = uuid.uuid4().hex
    session.pid = os.getpid()
    session.digest_history = set()
    session.message_count = 0


def _move_publisher(socket, thread):
    """Let the socket object that everybody publishes through use another thread. Returns it."""
    thread.background_socket = socket
    socket.io_thread = thread
    return socket


def service_threads(app):
    """The threads that plumbing started, and that it starts again in a branch."""
    threads = {app.heartbeat, app.control_thread, app.shell_channel_thread, app.iopub_thread.thread, app.poller}
    for stream in (sys.stdout, sys.stderr):
        threads.add(getattr(stream, "watch_fd_thread", None))
    history = app.kernel.shell.history_manager
    threads.add(getattr(history, "save_thread", None))
    garbage = sys.modules.get("zmq.utils.garbage")
    threads.add(getattr(getattr(garbage, "gc", None), "thread", None))
    return {thread for thread in threads if isinstance(thread, threading.Thread)}
