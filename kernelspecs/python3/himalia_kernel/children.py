"""Processes that multiprocessing starts for itself. They end when their pipe to this process does."""

import sys

_TRACKERS = ("multiprocessing.resource_tracker", "joblib.externals.loky.backend.resource_tracker")


def helpers():
    """The pids of resource trackers and of the fork server, as far as they run."""
    found = {getattr(getattr(sys.modules.get(name), "_resource_tracker", None), "_pid", None) for name in _TRACKERS}
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    found.add(getattr(server, "_forkserver_pid", None))
    return found - {None}
