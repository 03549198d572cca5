"""Leaves out imports that a kernel does not need at its start.

* `jupyter_client/__init__.py` imports every client, manager and provisioner; the kernel uses three of its submodules.
* `ipykernel.debugger` imports debugpy and pydevd, a third of the start, for a debugger that most sessions never use.

Each is entered in `sys.modules` without being run. The first use of a name that the stand-in does not have runs the
real module in its place, and from then on it is the ordinary one.
"""

import importlib
import importlib.util
import sys
import threading

# Names that ipykernel takes from jupyter_client itself, and the submodule that has them.
_CLIENT_NAMES = {
    "find_connection_file": "connect",
    "write_connection_file": "connect",
}


def defer_jupyter_client():
    """Enter `jupyter_client` in `sys.modules` without running it. Does nothing if it is imported already."""

    def submodule(attribute):
        home = _CLIENT_NAMES.get(attribute)
        return home and getattr(importlib.import_module(f"jupyter_client.{home}"), attribute)

    _defer("jupyter_client", submodule)


def defer_debugger():
    """Enter `ipykernel.debugger` without running it, if debugpy is installed; the debugger starts when it is used."""
    if importlib.util.find_spec("debugpy") is None:
        return
    from himalia_kernel.debugger import DeferredDebugger

    module = _defer("ipykernel.debugger")
    if module is not None:
        module._is_debugpy_available = True
        module.Debugger = DeferredDebugger


def undo():
    """Run the deferred modules now, if they are still waiting."""
    for name in ("jupyter_client", "ipykernel.debugger"):
        run(name)


def run(name):
    """Run the deferred module of that name, if it is still waiting, and return it."""
    module = sys.modules.get(name)
    now = getattr(module, "__dict__", {}).get("_himalia_run_now")
    if now is not None:
        now()
    return module


def _defer(name, known=lambda attribute: None):
    """Enter an unrun module; `known` may supply names of it without running it. Returns None if it is imported."""
    if name in sys.modules:
        return None
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    lock = threading.RLock()

    def run_now():
        with lock:
            if module.__dict__.pop("__getattr__", None) is not None:
                del module._himalia_run_now
                spec.loader.exec_module(module)

    def attribute_of(attribute):
        found = known(attribute)
        if found is not None:
            return found
        # Questions of the import system and of inspection tools are no reason to run it.
        if attribute.startswith("__") and attribute not in ("__all__", "__version__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        run_now()
        return getattr(module, attribute)

    module.__getattr__ = attribute_of
    module._himalia_run_now = run_now
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module
