"""Imports what most cells will need before the kernel answers for the first time.

`HIMALIA_PRELOAD` names the modules, separated by commas. An import that fails is reported on stderr; the kernel starts
without it.
"""

import importlib
import os
import sys
from dataclasses import dataclass, field

VARIABLE = "HIMALIA_PRELOAD"
# What ipykernel chooses when the environment names no backend.
INLINE_BACKEND = "module://matplotlib_inline.backend_inline"
# Roots of modules that import matplotlib, which reads its backend from the environment when it is imported.
_PLOTTING = ("matplotlib", "pylab", "seaborn", "pandas.plotting")


@dataclass
class Preloaded:
    """The outcome: names that were imported, and the others with what went wrong."""

    loaded: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def names(value=None):
    """The module names in `value`, by default in the environment, without repeats. There it is taken out."""
    value = os.environ.pop(VARIABLE, "") if value is None else value
    return list(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))


def load(wanted):
    """Import each module that is named in `wanted`."""
    outcome = Preloaded()
    for name in wanted:
        if name.startswith(_PLOTTING):
            os.environ.setdefault("MPLBACKEND", INLINE_BACKEND)
        try:
            importlib.import_module(name)
            outcome.loaded.append(name)
        except (Exception, SystemExit) as error:
            outcome.failed[name] = f"{type(error).__name__}: {error}"
            print(f"himalia_kernel: {name} was not preloaded: {outcome.failed[name]}", file=sys.stderr, flush=True)
    return outcome


def choose_plot_backend():
    """Load the backend of a preloaded pyplot now, with the shell in place, instead of at the first plot.

    Does nothing for another backend than ipykernel's default: its import may have effects that were not requested yet.
    """
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or os.environ.get("MPLBACKEND") != INLINE_BACKEND:
        return
    try:
        pyplot.switch_backend(INLINE_BACKEND)
    except Exception as error:
        print(f"himalia_kernel: the inline backend was not preloaded: {error}", file=sys.stderr, flush=True)
