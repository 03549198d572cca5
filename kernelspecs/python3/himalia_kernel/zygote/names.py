"""The names that the environment and this package have in a sandbox, in a host zygote, which loaded them by the host's own paths.

Files are the same ones under both. What is loaded names its files in tracebacks, warnings and `__file__`; child processes are started
by `sys.executable`.
"""

import _imp
import gc
import os
import sys
from types import FunctionType

import himalia_kernel
from himalia_kernel.zygote.home import Move

VARIABLE = "HIMALIA_ENV_OF_KERNELS"
_PACKAGE = "/himalia/kernel"


def take():
    """Use the names from here on, if `HIMALIA_ENV_OF_KERNELS` says that of the environment. What they stand for is there in sandboxes
    only, so nothing is loaded after this.
    """
    name = os.environ.pop(VARIABLE, "")
    if not name:
        return
    # The package may be installed in the environment: it is the first to go.
    _take(os.path.dirname(os.path.dirname(os.path.abspath(himalia_kernel.__file__))), _PACKAGE)
    _take(sys.prefix, name)
    sys.path_importer_cache.clear()


def _take(host, name):
    move = Move(host, name)
    for module in list(sys.modules.values()):
        _rename_spec(getattr(module, "__spec__", None), move)
    move.within_modules()
    for function in gc.get_objects():
        if type(function) is FunctionType:
            code = function.__code__
            moved = move.moved(code.co_filename)
            if moved is not code.co_filename:
                # In place, and in all that is nested in it, as the import system does for files that were compiled elsewhere.
                _imp._fix_co_filename(code, moved)


def _rename_spec(spec, move):
    loader = getattr(spec, "loader", None)
    for thing, attributes in ((spec, ("origin", "cached")), (loader, ("path",))):
        for attribute in attributes:
            value = getattr(thing, attribute, None)
            if type(value) is str:
                setattr(thing, attribute, move.moved(value))
