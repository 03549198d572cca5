"""Sets what a process takes from its environment, in one that already runs.

Some variables are read only when an interpreter or a library starts, and setting them here has no effect on that:
`PYTHON*` (`PYTHONHASHSEED`, `PYTHONPATH`, ...), `LD_*`, `MALLOC_*`, `LC_*` and `LANG`, `*_NUM_THREADS`, and
`MPLBACKEND` once matplotlib is loaded. Who needs those starts a kernel of its own.
"""

import importlib
import os
import tempfile
import time
from pathlib import Path

from himalia_kernel import packages
from himalia_kernel.preload import INLINE_BACKEND

_TEMPORARY = {"TMPDIR", "TEMP", "TMP"}


def checked(content):
    """Return `(variables to set, names to unset, working directory or None)` of a request, or raise ValueError."""
    variables = content.get("env") or {}
    unset = content.get("unset") or []
    directory = content.get("cwd")
    if not isinstance(variables, dict) or not all(
        _is_name(name) and isinstance(value, str) and "\0" not in value for name, value in variables.items()
    ):
        raise ValueError("env: an object of strings is needed")
    if not isinstance(unset, list) or not all(_is_name(name) for name in unset):
        raise ValueError("unset: a list of names is needed")
    if directory is not None and (not isinstance(directory, str) or "\0" in directory):
        raise ValueError("cwd: a path is needed")
    return variables, unset, directory


def _is_name(name):
    return isinstance(name, str) and name != "" and "=" not in name and "\0" not in name


def apply(app, variables, unset=(), directory=None):
    """Set and unset environment variables and change the directory; all of it, or OSError and nothing."""
    _change(app, variables, unset, directory)
    # Directory listings that the import system remembers may be those of another working directory or mount.
    importlib.invalidate_caches()


def _change(app, variables, unset, directory):
    if directory is not None:
        os.chdir(directory)
        app.kernel.observer.directory = os.getcwd()
    for name in unset:
        os.environ.pop(name, None)
    os.environ.update(variables)
    time.tzset()
    packages.make_importable()
    if not _TEMPORARY.isdisjoint({*variables, *unset}):
        tempfile.tempdir = None
    shell = app.shell
    if "HOME" in variables or "HOME" in unset:
        shell.home_dir = str(Path("~").expanduser())
    if "JPY_SESSION_NAME" in variables:
        shell.user_ns["__session__"] = variables["JPY_SESSION_NAME"]


def replace(app, variables, directory):
    """Make `variables` the whole environment, but for the plotting backend that a kernel has when none is named.

    For an embryo, whose import system remembers no listings of directories (`embryo.freeze`).
    """
    if not variables.get("MPLBACKEND"):
        variables = {**variables, "MPLBACKEND": INLINE_BACKEND}
    _change(app, variables, [name for name in os.environ if name not in variables], directory)


def start_directory_history(app):
    """Let the session's list of visited directories (`%dhist`) begin with the current one."""
    directories = app.shell.user_ns.get("_dh")
    if isinstance(directories, list):
        directories[:] = [Path.cwd()]


def move_profile(app):
    """Use the IPython profile of the home directory that the environment names, made if there is none."""
    from IPython.paths import get_ipython_dir

    shell = app.shell
    app.ipython_dir = shell.ipython_dir = get_ipython_dir()
    if app.profile_dir is not None:
        before = app.profile_dir.location
        app.config_file_paths = [path for path in app.config_file_paths if path != before]
    app.profile_dir = None
    app.config.ProfileDir.pop("location", None)
    app.init_profile_dir()
    app.kernel.profile_dir = shell.profile_dir = app.profile_dir
    shell.db = None  # made when it is used
