"""For a failed execution: the line of the user's that failed, and what may have been meant.

A hint is looked for in what is there: names, attributes, columns, keys, modules, files. No code of the user's objects
runs (see `statics`), every list that is searched is bounded, and a hint that cannot be found is null.
"""

import builtins
import difflib
import os
import re
import sys

from IPython.core.error import StdinNotImplementedError

from himalia_kernel import failure, namespace, statics, subscripts

# Candidates that are compared, characters of each, and characters of a hint.
CANDIDATES = 1000
_LENGTH = 80
_HINT = 600
_SHOWN = 12  # of a list that is shown if nothing is close
_CLOSE = 3
_PATHS = 30  # entries of sys.path

_args_of = BaseException.__dict__["args"].__get__
_TAKEN_FROM = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
_QUOTED = re.compile(r"'([^']*)'")

# Names that everybody gives to modules, and distributions that are not named as their module.
_ALIASES = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "sns": "import seaborn as sns",
    "pl": "import polars as pl",
    "sm": "import statsmodels.api as sm",
}
_DISTRIBUTIONS = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


def of(shell, result):
    """`{"line", "source", "cell", "hint"}` of a failed execution, each may be null; None if it did not fail."""
    found = failure.locate(shell, result)
    if found is None:
        return None
    try:
        hint = _hint(shell, found)
    except Exception:  # the error itself is what matters
        hint = None
    return {"line": found.line, "source": found.source, "cell": found.cell, "hint": hint and hint[:_HINT]}


def _hint(shell, found):
    problem = found.problem
    for kind, look in (
        (NameError, _name),
        (AttributeError, _attribute),
        (KeyError, _key),
        (ImportError, _import),
        (FileNotFoundError, _file),
        (StdinNotImplementedError, _stdin),
    ):
        if statics.is_instance(problem, kind):
            return look(shell, problem, found)
    return None


def _meant(wanted, candidates, shown=None):
    """`did you mean …?`, or what there is instead if `shown` says how to call that; None for neither."""
    if type(wanted) is not str:
        return None
    candidates = [name for name in candidates if type(name) is str and 0 < len(name) <= _LENGTH]
    candidates = list(dict.fromkeys(candidates))[:CANDIDATES]
    folded = {name.casefold(): name for name in reversed(candidates)}
    close = difflib.get_close_matches(wanted[:_LENGTH].casefold(), folded, _CLOSE, 0.6)
    close = [folded[name] for name in close if folded[name] != wanted]
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    if shown is None or not candidates:
        return None
    more = f" and {len(candidates) - _SHOWN} more" if len(candidates) > _SHOWN else ""
    return f"{shown}: {', '.join(map(repr, candidates[:_SHOWN]))}{more}"


def _name(shell, problem, found):
    wanted = NameError.name.__get__(problem)
    if wanted in _ALIASES:
        return f"{wanted!r} is not imported yet: {_ALIASES[wanted]}"
    names = []
    if found.frame is not None and found.frame.f_code.co_name != "<module>":
        names += [name for name, _ in namespace.snapshot(found.frame.f_locals)]
    names += [name for name, _ in namespace.snapshot(shell.user_ns) if not namespace.is_internal(name)]
    if type(wanted) is str and (wanted in sys.stdlib_module_names or wanted in sys.modules):
        return f"{wanted!r} is a module that is not imported yet: import {wanted}"
    return _meant(wanted, [*names[-CANDIDATES:], *vars(builtins)])


def _attribute(shell, problem, found):
    wanted, thing = AttributeError.name.__get__(problem), AttributeError.obj.__get__(problem)
    if wanted is None:
        return None
    if thing is None:
        return "the object is None; methods that work in place return None"
    names = statics.attribute_names(thing, CANDIDATES)
    if type(wanted) is str and not wanted.startswith("_"):
        names = [name for name in names if not name.startswith("_")]
    keys = subscripts.keys_of(thing, CANDIDATES)
    return _meant(wanted, [*(keys.names if keys is not None else ()), *names])


def _key(shell, problem, found):
    arguments = _args_of(problem)
    wanted = arguments[0] if len(arguments) == 1 else None
    close, lists = [], []
    for expression, keys in subscripts.containers(found):
        there = f"{keys.kind} of {expression} are"
        if type(wanted) is not str or wanted in keys.names:
            lists.append(f"{there}: {', '.join(subscripts.shown(keys.found, _SHOWN))}")
            continue
        # pandas writes a sentence about the ones that are missing.
        wanted = wanted.removeprefix("Column not found: ")
        for text in [text for text in _QUOTED.findall(wanted)[:_CLOSE] if text not in keys.names] or [wanted]:
            meant = _meant(text, keys.names)
            if meant is not None:
                close.append(f"{expression}: {meant}")
            else:
                lists.append(_meant(text, keys.names, there))
    return "; ".join(filter(None, (close or lists)[:_CLOSE])) or None


def _import(shell, problem, found):
    message = _args_of(problem)[0] if _args_of(problem) else None
    taken = _TAKEN_FROM.match(message) if type(message) is str else None
    if taken is not None:
        name, module = taken.groups()
        loaded = sys.modules.get(module)
        return None if loaded is None else _meant(name, statics.attribute_names(loaded, 4 * CANDIDATES))
    wanted = ImportError.name.__get__(problem)
    if type(wanted) is not str:
        return None
    parent, _, child = wanted.rpartition(".")
    if parent:
        loaded = sys.modules.get(parent)
        places = (statics.instance_dict(loaded) or {}).get("__path__") if loaded is not None else None
        return _meant(child, _modules_in(places if type(places) is list else []))
    if wanted in _DISTRIBUTIONS:
        return f"the module {wanted!r} comes with the package {_DISTRIBUTIONS[wanted]!r}, which is not installed"
    return _meant(wanted, [*_modules_in(sys.path), *sys.stdlib_module_names])


def _modules_in(places):
    """Names of modules that can be imported from directories, as far as their listings show."""
    found = {}
    for place in list(places)[:_PATHS]:
        if type(place) is not str:
            continue
        for name in _listing(place or ".", CANDIDATES):
            stem = name.split(".")[0]
            if stem.isidentifier() and (name == stem or name.endswith((".py", ".so"))) and stem != "__pycache__":
                found[stem] = None
    return [name for name in found if not name.startswith("_")]


def _stdin(shell, problem, found):
    return (
        "the caller of this code answers no prompts: put the value into the code, or let it ask "
        "(allow_stdin over REST and MCP, `himalia exec` in a terminal)"
    )


def _file(shell, problem, found):
    path = OSError.filename.__get__(problem)
    if type(path) is not str:
        return None
    path = path.rstrip("/")
    directory, name = os.path.split(path)
    if directory and not os.path.isdir(directory):
        while directory and not os.path.isdir(directory):
            directory, name = os.path.split(directory)
        if not name:
            return None
    names = _listing(directory or ".", CANDIDATES)
    where = repr(directory) if directory else f"the working directory {os.getcwd()!r}"
    meant = _meant(name, names, f"{where} has")
    return meant if meant is not None else f"{where} is empty" if not names else None


def _listing(directory, limit):
    """Names in a directory, at most `limit`, sorted; none if it cannot be read."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if len(found) >= limit:
                    break
                if not entry.name.startswith("."):
                    found.append(entry.name)
    except OSError:
        pass
    return sorted(found)
