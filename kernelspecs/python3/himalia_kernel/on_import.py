"""Calls a function when a module is loaded, so that what is changed in a library costs a session that does not use it nothing."""

import importlib.abc
import importlib.util
import sys


def call(changes):
    """`changes`: `{name of a module: function}`. Each is called once with its module: now, if that is loaded already."""
    waiting = {}
    for name, change in changes.items():
        if name in sys.modules:
            _apply(change, sys.modules[name])
        else:
            waiting[name] = change
    sys.meta_path.insert(0, _Finder(waiting))


def _apply(change, module):
    try:
        change(module)
    except Exception as problem:  # the library works without it
        print(f"himalia_kernel: {module.__name__} is unchanged: {type(problem).__name__}: {problem}", file=sys.stderr)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, waiting):
        self._waiting = waiting

    def find_spec(self, name, path=None, target=None):
        """Whatever the others find, with a loader that makes the change."""
        change = self._waiting.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            self._waiting[name] = change
            return None
        plain = spec.loader.exec_module

        def exec_module(module):
            plain(module)
            _apply(change, module)

        spec.loader.exec_module = exec_module
        return spec
