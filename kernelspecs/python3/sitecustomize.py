"""Read by every Python of a sandbox when it starts: the programs of the kernel's environment see what cells see.

* The environment is at its own path of the host, which scripts in it name, and `/himalia/env` is a link to it. Interpreter and
  libraries are named by the link, as in the kernel.
* What the session has installed into `PIP_TARGET` can be imported: last, so that it takes the place of nothing.

A file of this name that the environment has of its own is run after it.
"""

import os
import sys

ENV = "/himalia/env"


def name_environment(link=ENV):
    """Put the link in the place of the environment's own path."""
    try:
        host = os.readlink(link)
    except OSError:
        return

    def named(path):
        return link + path[len(host) :] if path == host or path.startswith(host + os.sep) else path

    sys.path[:] = [named(path) for path in sys.path]
    for name in ("prefix", "exec_prefix", "executable"):
        setattr(sys, name, named(getattr(sys, name) or ""))


def import_installed():
    """Append the directory of the session's own packages."""
    directory = os.environ.get("PIP_TARGET")
    if directory and directory not in sys.path:
        sys.path.append(directory)


def run_next():
    """Run the file of this name that comes next on the path."""
    for directory in sys.path:
        path = os.path.join(directory, "sitecustomize.py")
        # Our own may be there twice: by PYTHONPATH, and by the environment.
        if os.path.isabs(directory) and os.path.isfile(path) and not os.path.isdir(os.path.join(directory, "himalia_kernel")):
            with open(path, "rb") as file:
                exec(compile(file.read(), path, "exec"), {"__name__": __name__, "__file__": path})
            return


name_environment()
run_next()
import_installed()
