"""Read by every Python of a sandbox when it starts: the programs of the kernel's environment see what cells see.

* The environment is at its own path of the host, which scripts in it name, and `/himalia/env` is a link to it. Interpreter and
  libraries are named by the link, as in the kernel.
* What the session has installed into `PIP_TARGET` can be imported: last, so that it takes the place of nothing.
* `pip uninstall` removes what the session has installed, and nothing of the environment.

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


def is_uninstall(words):
    """Whether these words of a command are `pip uninstall`, with or without options before it."""
    pips = [at for at, word in enumerate(words[1:], 1) if os.path.basename(word).startswith("pip")]
    rest = [word for word in words[pips[0] + 1 :] if not word.startswith("-")] if pips else []
    return rest[:1] == ["uninstall"]


def remove_installed():
    """Let `pip uninstall` find the session's own packages, and find them first.

    It removes only what is below `sys.prefix`, which is here the environment, and that is read-only. For this one process it is the
    directory of the session's packages, with their programs in its `bin`. Of a package of the environment, pip says that it is outside.
    """
    directory = os.environ.get("PIP_TARGET")
    # Another environment, which code in the session made, is as it is everywhere.
    if not directory or not is_uninstall(sys.orig_argv) or os.access(sys.prefix, os.W_OK):
        return
    libraries = (at for at, one in enumerate(sys.path) if one.endswith("site-packages"))
    if directory not in sys.path:
        sys.path.insert(next(libraries, len(sys.path)), directory)
    sys.prefix = directory
    # That directory has no `pyvenv.cfg`, of which pip would warn.
    import logging

    logging.getLogger("pip._internal.utils.virtualenv").addFilter(lambda record: False)


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
if "uninstall" in sys.orig_argv:
    remove_installed()
import_installed()
