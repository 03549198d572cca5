"""What a branch has from its parent and must leave alone: the parent cleans it up."""

import atexit
import os
import sys
import tempfile
import weakref

_LEFT_BEHIND = []


def disown(app):
    """Give up temporary directories, worker processes and databases of the parent."""
    app.poller = None
    _temporary_directories()
    _worker_processes()
    _joblib()
    _history(app.kernel.shell.history_manager)


def _temporary_directories():
    """`TemporaryDirectory` objects from before the fork no longer delete their directory here."""
    cleanup = tempfile.TemporaryDirectory._cleanup.__func__
    for finalizer in list(weakref.finalize._registry):
        details = finalizer.peek()
        if details is not None and getattr(details[1], "__func__", None) is cleanup:
            finalizer.detach()


def _worker_processes():
    """At exit multiprocessing ends its daemonic children, by their number."""
    module = sys.modules.get("multiprocessing.process")
    if module is not None:
        _LEFT_BEHIND.append(set(module._children))
        module._children.clear()
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    if getattr(server, "_forkserver_pid", None) is not None:
        # It is no child of this process, which could not ask whether it lives: the next use starts another one.
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = server._forkserver_address = server._forkserver_pid = None


def _joblib():
    """joblib's pool of worker processes: the next use starts a new one."""
    module = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(module, "_executor", None)
    if executor is None:
        return
    _LEFT_BEHIND.append(executor)
    module._executor = module._executor_kwargs = None
    folders = getattr(executor, "_temp_folder_manager", None)
    for finalizer in getattr(folders, "_finalizers", {}).values():
        atexit.unregister(finalizer)
    sys.modules["joblib.externals.loky.process_executor"]._threads_wakeups.clear()


def _history(manager):
    """A history file gets a connection and a session of the branch's own; one in memory is the branch's already."""
    if manager is None or not manager.enabled or manager.hist_file == ":memory:":
        return
    _LEFT_BEHIND.append((manager.db, manager.save_thread))
    manager.save_thread = None
    manager.init_db()
    manager.new_session()
