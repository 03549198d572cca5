"""The environment and the directory of one execution, which are as before when it has ended.

The gateway puts them into the metadata of the `execute_request`: `{"himalia": {"env": {name: value}, "cwd": path or null}}`. Variables that
are not named stay what the code makes of them. A named one, and the directory, are restored whatever the code did with them.
"""

import os
import tempfile
import time

from himalia_kernel import environment

_TEMPORARY = {"TMPDIR", "TEMP", "TMP"}


class Scope:
    """What an execution is given."""

    def __init__(self, asked, work_dir):
        """Of the metadata of a request; ValueError. `work_dir`: what a relative directory is relative to."""
        if not isinstance(asked, dict):
            raise ValueError("himalia: an object is needed")
        self._variables, _, directory = environment.checked({"env": asked.get("env"), "cwd": asked.get("cwd")})
        self._directory = None if directory is None else os.path.join(work_dir, directory)
        self._before = {}
        self._came_from = None

    def enter(self):
        """Apply it; all of it, or OSError and nothing."""
        if self._directory is not None:
            before = os.getcwd()
            os.chdir(self._directory)
            self._came_from = before
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)
        self._tell()

    def leave(self):
        """Restore what was there before. A directory that has gone meanwhile stays the one that it is."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._tell()
        if self._came_from is not None:
            try:
                os.chdir(self._came_from)
            except OSError:
                pass

    def _tell(self):
        """Let go what libraries remember of the variables."""
        if "TZ" in self._variables:
            time.tzset()
        if not _TEMPORARY.isdisjoint(self._variables):
            tempfile.tempdir = None
