"""Says whether the installed ipykernel is one that the additions were tested with."""

import importlib
import inspect

# Minor versions of ipykernel that tests/python/kernel passes with.
TESTED = ((7, 2), (7, 3), (7, 4))

# Private and public names that the additions use: (module, dotted name, parameters that it must have).
_USED = (
    ("IPython.core.interactiveshell", "InteractiveShell.run_code", None),
    ("asyncio.selector_events", "BaseSelectorEventLoop._make_self_pipe", ("self",)),
    ("ipykernel.kernelapp", "IOPubThread", None),
    ("ipykernel.kernelapp", "IPKernelApp._bind_socket", ("self", "s", "port")),
    ("ipykernel.kernelapp", "IPKernelApp.log_connection_info", ("self",)),
    ("ipykernel.kernelapp", "IPKernelApp.outstream_class", None),
    ("ipykernel.kernelapp", "IPKernelApp.close", ("self",)),
    ("ipykernel.kernelapp", "IPKernelApp.configure_tornado_logger", ("self",)),
    ("ipykernel.kernelapp", "IPKernelApp.init_heartbeat", ("self",)),
    ("ipykernel.kernelapp", "IPKernelApp.init_io", ("self",)),
    ("ipykernel.kernelapp", "IPKernelApp.init_sockets", ("self",)),
    ("ipykernel.kernelapp", "IPKernelApp.kernel_class", None),
    ("ipykernel.kernelapp", "IPKernelApp.write_connection_file", None),
    ("ipykernel.kernelbase", "Kernel._aborting", None),
    ("ipykernel.kernelbase", "Kernel._process_children", ("self",)),
    ("ipykernel.kernelbase", "Kernel._publish_status", ("self", "status", "channel", "parent")),
    ("ipykernel.kernelbase", "Kernel.control_msg_types", None),
    ("ipykernel.kernelbase", "Kernel.pre_handler_hook", ("self",)),
    ("ipykernel.kernelbase", "Kernel.finish_metadata", ("self", "parent", "metadata", "reply_content")),
    (
        "ipykernel.ipkernel",
        "IPythonKernel.do_execute",
        ("self", "code", "silent", "store_history", "user_expressions", "allow_stdin"),
    ),
    ("ipykernel.shellchannel", "ShellChannelThread.manager", None),
    ("ipykernel.iostream", "BackgroundSocket.send_multipart", None),
    ("ipykernel.iostream", "OutStream._watch_pipe_fd", ("self",)),
    ("ipykernel.iostream", "IOPubThread.__init__", ("self", "socket", "pipe", "session")),
    ("ipykernel.iostream", "IOPubThread._check_mp_mode", ("self",)),
    ("ipykernel.iostream", "IOPubThread._event_pipe", None),
    ("ipykernel.iostream", "IOPubThread._handle_event", ("self", "msg")),
    ("ipykernel.iostream", "IOPubThread._handle_subscription", ("self", "frames")),
    ("ipykernel.iostream", "IOPubThread._really_send", None),
    ("ipykernel.iostream", "IOPubThread._thread_main", ("self",)),
    ("ipykernel.iostream", "IOPubThread.schedule", ("self", "f")),
    ("ipykernel.iostream", "IOPubThread.send_multipart", None),
    ("ipykernel.iostream", "IOPubThread.stop", ("self",)),
    ("ipykernel.iostream", "OutStream._flush", ("self",)),
    ("ipykernel.iostream", "OutStream._hooks", None),
    ("ipykernel.iostream", "OutStream._is_master_process", ("self",)),
    ("ipykernel.iostream", "OutStream._schedule_flush", ("self",)),
    ("ipykernel.iostream", "OutStream.flush", ("self",)),
    ("ipykernel.iostream", "OutStream.parent_header", None),
    ("ipykernel.iostream", "OutStream.write", ("self", "string")),
    ("ipykernel.ipkernel", "IPythonKernel._cancel_on_sigint", None),
    ("ipykernel.ipkernel", "IPythonKernel.debugger_class", None),
    ("ipykernel.thread", "CONTROL_THREAD_NAME", None),
    ("ipykernel.thread", "SHELL_CHANNEL_THREAD_NAME", None),
)

_USED_BY_FORK = (
    ("concurrent.futures.thread", "_threads_queues", None),
    ("concurrent.futures.thread", "_worker", None),
    ("tempfile", "TemporaryDirectory._cleanup", None),
    ("tornado.ioloop", "IOLoop._ioloop_for_asyncio", None),
    ("weakref", "finalize._registry", None),
)


def problem():
    """Return why the additions cannot be used here, or None. Costs about a millisecond beside the imports.

    Looks at the version and at the names, not at what the code does: that is what the tests of each version in
    `TESTED` are for.
    """
    from ipykernel import version_info

    minor = tuple(version_info[:2])
    if minor not in TESTED:
        tested = ", ".join(f"{a}.{b}" for a, b in TESTED)
        return f"ipykernel {minor[0]}.{minor[1]} is not a version that was tested (these were: {tested})"
    return _missing(_USED)


def fork_problem():
    """Return why a live kernel cannot be forked here, or None: the names. What they do is tried by `fork.trial`."""
    import sys

    if not sys.platform.startswith("linux"):
        return "forks of a live kernel need Linux"
    return _missing(_USED_BY_FORK)


def _missing(used):
    for module, name, parameters in used:
        place = importlib.import_module(module)
        for part in name.split("."):
            # As stored: the properties among these must not be evaluated.
            place = inspect.getattr_static(place, part, None)
            if place is None:
                return f"{module} has no {name}"
        if parameters is not None and place.__code__.co_varnames[: place.__code__.co_argcount] != parameters:
            return f"{module}.{name} has other parameters"
    return None
