"""Lets cells import from the working directory, which a start must not.

`-P` keeps the directory off `sys.path` while the kernel is loaded. IPython, which puts it there for cells, takes the option for the
user's choice; it is ours. `PYTHONSAFEPATH` is the user's.
"""

import os
import sys


def make_importable(app):
    """Put the directory where IPython puts it: before the first directory of installed packages."""
    if "" in sys.path or app.ignore_cwd or os.environ.get("PYTHONSAFEPATH"):
        return
    installed = (at for at, path in enumerate(sys.path) if os.path.basename(path) in {"site-packages", "dist-packages"})
    sys.path.insert(next(installed, 0), "")


def extend(application):
    """Have applications of a class that is not ours do it when IPython would."""
    plain = application.init_path

    def init_path(app):
        plain(app)
        make_importable(app)

    application.init_path = init_path
