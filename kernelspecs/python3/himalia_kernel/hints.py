"""For a failed execution: the line of the user's that failed, and what may have been meant.

A hint is looked for in what is there: names, attributes, columns, keys, modules, files. No code of the user's objects
runs (see `statics`), every list that is searched is bounded, and a hint that cannot be found is null.
"""

import builtins
import os
import re
import sys

from IPython.core.error import StdinNotImplementedError

from himalia_kernel import absent, advice, failure, guesses, namespace, offline, statics, subscripts
from himalia_kernel.guesses import CANDIDATES, meant

# Characters of a hint, names of a list that is shown if nothing is close, and guesses.
_HINT = 600
_SHOWN = 12
_CLOSE = 3
# Directories below the working directory that are searched for a file.
_DIRECTORIES = 100
_TEXT = 40  # characters of a path from which on it may be a text

_args_of = BaseException.__dict__["args"].__get__
_TAKEN_FROM = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
_QUOTED = re.compile(r"'([^']*)'")

# Names that everybody gives to modules.
_ALIASES = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "sns": "import seaborn as sns",
    "pl": "import polars as pl",
    "sm": "import statsmodels.api as sm",
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
    hint = offline.hint(shell, problem, found)
    if hint is not None:
        return hint
    for kind, look in (
        (NameError, _name),
        (AttributeError, _attribute),
        (KeyError, _key),
        (ImportError, _import),
        (FileNotFoundError, _file),
        (StdinNotImplementedError, _stdin),
        (TypeError, _message),
        (ValueError, _message),
        (SyntaxError, _message),
    ):
        if statics.is_instance(problem, kind):
            return look(shell, problem, found)
    return None


def _name(shell, problem, found):
    wanted = NameError.name.__get__(problem)
    if statics.module_name(type(problem)) == "pandas.errors":
        return advice.for_query(problem, found)
    if wanted in _ALIASES:
        return f"{wanted!r} is not imported yet: {_ALIASES[wanted]}"
    names = []
    if found.frame is not None and found.frame.f_code.co_name != "<module>":
        names += [name for name, _ in namespace.snapshot(found.frame.f_locals)]
    names += [name for name, _ in namespace.snapshot(shell.user_ns) if not namespace.is_internal(name)]
    if type(wanted) is str and (wanted in sys.stdlib_module_names or wanted in sys.modules):
        return f"{wanted!r} is a module that is not imported yet: import {wanted}"
    return meant(wanted, [*names[-CANDIDATES:], *vars(builtins)])


def _attribute(shell, problem, found):
    wanted, thing = AttributeError.name.__get__(problem), AttributeError.obj.__get__(problem)
    if wanted is None:
        return advice.for_message(problem, found)
    if thing is None:
        return "the object is None; methods that work in place return None"
    instead = advice.for_attribute(thing, wanted) or advice.for_message(problem, found)
    if instead is not None:
        return instead
    names = statics.attribute_names(thing, CANDIDATES)
    if type(wanted) is str and not wanted.startswith("_"):
        names = [name for name in names if not name.startswith("_")]
    keys = subscripts.keys_of(thing, CANDIDATES)
    return meant(wanted, [*(keys.names if keys is not None else ()), *names])


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
            guess = meant(text, keys.names)
            if guess is not None:
                close.append(f"{expression}: {guess}")
            else:
                lists.append(meant(text, keys.names, there))
    return "; ".join(filter(None, (close or lists)[:_CLOSE])) or None


def _import(shell, problem, found):
    message = _args_of(problem)[0] if _args_of(problem) else None
    taken = _TAKEN_FROM.match(message) if type(message) is str else None
    if taken is not None:
        name, module = taken.groups()
        if (instead := advice.for_import(module, name)) is not None:
            return instead
        loaded = sys.modules.get(module)
        return None if loaded is None else meant(name, statics.attribute_names(loaded, 4 * CANDIDATES))
    wanted = ImportError.name.__get__(problem)
    if type(wanted) is not str:
        return None
    if (instead := advice.for_import(wanted)) is not None:
        return instead
    parent, _, child = wanted.rpartition(".")
    if parent:
        loaded = sys.modules.get(parent)
        places = (statics.instance_dict(loaded) or {}).get("__path__") if loaded is not None else None
        return meant(child, absent.modules_in(places if type(places) is list else []))
    return absent.hint(wanted)


def _message(shell, problem, found):
    return advice.for_message(problem, found)


def _stdin(shell, problem, found):
    return (
        "the caller of this code answers no prompts: put the value into the code, or let it ask "
        "(allow_stdin over REST and MCP, `himalia exec` in a terminal)"
    )


def _file(shell, problem, found):
    path = OSError.filename.__get__(problem)
    if type(path) is not str:
        return None
    if len(path) > _TEXT and "\n" in path or path.lstrip()[:1] in ("<", "{", "["):
        return "this is a text, not the path of a file: io.StringIO(text) makes a file of it"
    path = path.rstrip("/")
    same = _of_that_name(os.path.basename(path), path)
    if same:
        return f"the working directory {os.getcwd()!r} has {' and '.join(map(repr, same))}"
    directory, name = os.path.split(path)
    if directory and not os.path.isdir(directory):
        while directory and not os.path.isdir(directory):
            directory, name = os.path.split(directory)
        # What there is elsewhere in the file system says nothing about the files of a session.
        if not name or os.path.isabs(path) and not directory.startswith(os.getcwd()):
            directory, name = "", os.path.basename(path)
    names = guesses.listing(directory or ".")
    where = repr(directory) if directory else f"the working directory {os.getcwd()!r}"
    guess = meant(name, names, f"{where} has")
    return guess if guess is not None else f"{where} is empty" if not names else None


def _of_that_name(name, path):
    """Files in the working directory and the directories in it that have the name which a path ends with."""
    if not name:
        return []
    places = [name, *(f"{one}/{name}" for one in guesses.listing(".")[:_DIRECTORIES])]
    return [place for place in places if place != path and os.path.exists(place)][:_CLOSE]
