"""Packages that a session installs for itself, in the directory that `PIP_TARGET` names.

The gateway sets it inside sandboxes, where the environment is read-only. The directory comes last on `sys.path`, so that
nothing in it takes the place of what the environment has.
"""

import functools
import importlib
import os
import sys

from himalia_kernel import offline

_INDEX_SECONDS = 10


# With the package `himalia` for code in sessions. Behind everything else, so that the client of the same name is imported where it is
# installed; that has what is here too.
_LIBRARY = os.path.join(os.path.dirname(__file__), "library")


def make_importable():
    """Put the directory on `sys.path`, if there is one and it is not there yet; and behind it what code in sessions imports of ours."""
    directory = os.environ.get("PIP_TARGET")
    if directory and directory not in sys.path:
        sys.path.append(directory)
    sys.path[:] = [one for one in sys.path if one != _LIBRARY] + [_LIBRARY]


def serve(shell):
    """Let a shell's cells import what was installed by an earlier one, and say why `%pip` and `!pip` failed."""
    shell.events.register("pre_run_cell", _look_again)
    # `%pip` runs the same command.
    shell.system = _explained(shell, shell.system)


def _look_again(_info):
    # Python remembers that a directory is missing, and looks no more.
    directory = os.environ.get("PIP_TARGET")
    if directory and sys.path_importer_cache.get(directory, _look_again) is None:
        del sys.path_importer_cache[directory]


def _refusal():
    """Why the gateway's index of packages gives nothing, if it does so: `pip` treats a refusal as a project that is not there."""
    index = offline.index()
    if index is None:
        return None
    try:
        # This module is imported by every kernel, and this one by few.
        urllib = importlib.import_module("urllib.request")
        urllib.urlopen(index + "pip/", timeout=_INDEX_SECONDS).close()
    except OSError as error:
        # An index need not have that project.
        if getattr(error, "code", None) != 404:
            return getattr(error, "reason", None) or str(error)
    return None


def _explained(shell, system):
    @functools.wraps(system)
    def run(command):
        system(command)
        if offline.installs(command):
            importlib.invalidate_caches()
            _explain(shell)

    return run


def _explain(shell):
    """Say why an installation failed, if it did and that is known."""
    if not shell.user_ns.get("_exit_code"):
        return
    if offline.is_offline():
        print(f"[himalia: {offline.NO_PACKAGES}.]", file=sys.stderr)
    elif refusal := _refusal():
        print(f"[himalia: {refusal}]", file=sys.stderr)
