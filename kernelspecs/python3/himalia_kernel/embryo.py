"""Makes the embryo of a kernel: all that can be done before it is known whose kernel it will be.

It has no socket, no ZeroMQ context, no event loop, no Python thread and no secret, so a process that holds one can be
forked again and again, and each child plumbs its copy.
"""

import gc
import importlib
import io
import os
import pkgutil
import sys

import himalia_kernel
from himalia_kernel import preload

# What the plumbing imports when it is first done.
_LATE = ("faulthandler", "tornado.platform.asyncio")
# Run once without being stored or shown, so that what is made at first use is made before the fork.
_WARM_UP = "[number + 1 for number in range(3)]"


def make(application, wanted):
    """Return `(app, Preloaded)`. `application`: the class; `wanted`: names of modules to import first."""
    preloaded = preload.load(wanted)
    # Later the package may be at another place than now.
    for module in pkgutil.walk_packages(himalia_kernel.__path__, "himalia_kernel."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    app = application.instance(embryo=True)
    app.initialize([])
    app.poller = None
    _warm_up(app.shell)
    return app, preloaded


def freeze():
    """Put all that is alive out of the sight of the garbage collector, whose marks would unshare every page.

    The collector stays off in this process; a kernel that is forked from it turns it on. What the import system remembers of
    directories is forgotten here, once for all kernels, which are in other places.
    """
    importlib.invalidate_caches()
    gc.collect()
    gc.disable()
    gc.freeze()


def _warm_up(shell):
    import linecache

    lines = set(linecache.cache)
    names = dict(shell.user_ns)
    result = shell.run_cell(_WARM_UP, store_history=False, silent=True)
    if not result.success:
        raise RuntimeError(f"the warm-up cell failed: {result.error_before_exec or result.error_in_exec}")
    shell.last_execution_result = None
    shell.last_execution_succeeded = True
    try:
        raise ValueError("warm-up")
    except ValueError:
        shell.InteractiveTB.structured_traceback(*sys.exc_info())
    shell.display_formatter.format("")
    importlib.import_module("jedi") if shell.Completer.use_jedi else None
    _draw()
    for name in set(linecache.cache) - lines:
        if "ipykernel" in name:
            del linecache.cache[name]
    shell.compile._filename_map.clear()
    for name in set(shell.user_ns) - set(names):
        del shell.user_ns[name]


def _draw():
    """Draw an empty plot, which finds the fonts. Without pyplot, whose state stays as it is."""
    if "matplotlib.pyplot" in sys.modules:
        from matplotlib import font_manager
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure()
        FigureCanvasAgg(figure)
        figure.subplots().plot([0, 1])
        figure.savefig(io.BytesIO(), format="png")
        # The fonts that were drawn with hold their files open.
        font_manager._get_font.cache_clear()


def open_files(known):
    """What this process has open besides the descriptors `known`. No child of it may have these, nor do without."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            if int(number) not in known:
                found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the listing's own
    return found
