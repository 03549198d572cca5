"""Forks of a running kernel, and clients of the branches."""

import itertools
import json
import os
import signal
from pathlib import Path

from rawkernel import Client, RawKernel, connection_info

_NUMBERS = itertools.count()


def request_fork(kernel, **more):
    """Ask for a fork. Returns the content of the reply, and the connection info of the branch."""
    directory = kernel.directory.name
    number = next(_NUMBERS)
    info = connection_info(f"{directory}/b{number}")
    path = Path(directory) / f"b{number}.json"
    path.write_text(json.dumps(info))
    content = {"connection_file": str(path), "policy": "report", "wait_ms": 20_000, **more}
    return kernel.request("himalia_fork_request", content, "control", timeout=40), info


class Branch(Client):
    """A branch and a client of it. `reply` is the content of the fork's reply."""

    def __init__(self, kernel, **more):
        self.forked, info = request_fork(kernel, **more)
        assert self.forked["status"] == "ok", self.forked
        self.pid = self.forked["pid"]
        self.directory = kernel.directory
        super().__init__(info)

    def interrupt(self):
        """SIGINT, as the shim sends it."""
        os.kill(self.pid, signal.SIGINT)

    def close(self):
        """Kill the branch and close the sockets."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.disconnect()


class Family:
    """A kernel and all branches that a test makes, ended together."""

    def __init__(self, python, **options):
        self.kernel = RawKernel(python, **options)
        self._branches = []

    def fork(self, kernel=None, **more):
        """A branch of `kernel`, by default of the first one."""
        branch = Branch(kernel or self.kernel, **more)
        self._branches.append(branch)
        return branch

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for branch in self._branches:
            branch.close()
        self.kernel.close()
