"""Says which variables an execution added, changed and removed.

A variable is changed when its name is bound to another object, unless both are the same small constant, or when the
object's fingerprint is another one (see `fingerprint`), or the code assigns into it (see `targets`). No object is kept alive for the comparison but small constants.
What changed while no execution ran (by threads, tasks, silent executions) counts for the next one.
"""

import re
import threading
import time
import weakref

from himalia_kernel import fingerprint, namespace, targets

# How long one comparison may take, seconds. What it does not reach keeps its old fingerprint.
BUDGET_S = 0.015
# Names in each of the three lists.
NAMES_LIMIT = 200
# Variables that are followed, and characters of code that are searched for names.
_FOLLOWED = 20_000
_CODE = 20_000
_LOOK_AT_CLOCK = 16

_WORD = re.compile(r"[^\W\d]\w*")


# Stands for the content of an object that there was no time to look into.
_UNSEEN = object()


class _Variable:
    """What is remembered of one name."""

    __slots__ = ("content", "hidden", "ident", "reference")

    def __init__(self, value, hidden, known):
        self.ident = id(value)
        self.hidden = hidden
        # An address says little once the object that was there is gone.
        self.reference = None
        self.content = None
        if not hidden:
            if fingerprint.is_value(value):
                self.content = _Constant(value)
            else:
                self.content = _content(value, known)
                try:
                    self.reference = weakref.ref(value)
                except TypeError:
                    pass

    def is_same(self, value):
        """Whether the name is bound to the object that it was bound to."""
        return id(value) == self.ident and (self.reference is None or self.reference() is value)


def _content(value, known):
    if known is None:
        return _UNSEEN
    try:
        return fingerprint.content(value, known)
    except RuntimeError:  # another thread changes it at this moment
        return _UNSEEN


class _Constant:
    """A small constant, which is the same as any equal one of its type."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is _Constant and type(self.value) is type(other.value) and self.value == other.value

    __hash__ = None


class Ledger:
    """The variables of a kernel as they were after the last execution."""

    def __init__(self, shell):
        self._shell = shell
        self._lock = threading.Lock()
        self._variables = {}
        self._idents = []  # of the objects, in the order of _variables
        self._watched = {}  # names whose objects can change in place
        self._internal = set()

    def update(self, code):
        """Compare and remember. Returns `{"added", "changed", "removed", "truncated"}`, lists of names.

        `code`: what was executed; the variables that it names are looked at first.
        """
        with self._lock:
            return self._update(code, time.monotonic() + BUDGET_S)

    def _update(self, code, deadline):
        known = fingerprint.kinds()
        found = self._shell.user_ns
        variables = self._variables
        removed, rebound = self._compare_names(found)
        added, changed = [], []
        late = False
        for name in rebound:
            late = late or time.monotonic() > deadline
            self._bind(name, found, None if late else known, added, changed)
        fresh = set(rebound)
        for name in [name for name in found.keys() - variables.keys() - self._internal if self._is_followed(name)]:
            late = late or time.monotonic() > deadline
            self._bind(name, found, None if late else known, added, changed)
            fresh.add(name)
        if fresh or removed:
            self._idents = [variable.ident for variable in variables.values()]
        late = self._look_inside(found, self._order(code, fresh), known, deadline, changed) or late
        # A sample of a large object does not show each change; the code says which object it changes.
        named = targets.of(code, self._shell.transform_cell) if self._watched else set()
        changed += [name for name in named if name in self._watched and name not in fresh and name not in changed]
        lists = {"added": added, "changed": changed, "removed": removed}
        late = late or len(variables) >= _FOLLOWED or any(len(names) > NAMES_LIMIT for names in lists.values())
        return {kind: sorted(names)[:NAMES_LIMIT] for kind, names in lists.items()} | {"truncated": late}

    def _compare_names(self, found):
        """The names that are gone, which are forgotten, and those that are bound to another object."""
        variables = self._variables
        idents = list(map(id, map(found.get, variables)))
        if idents == self._idents and variables.keys() <= found.keys():
            return [], []
        removed = []
        for name in variables.keys() - found.keys():
            if not variables.pop(name).hidden:
                removed.append(name)
            self._watched.pop(name, None)
        return removed, [name for name, one in variables.items() if id(found.get(name)) != one.ident]

    def _is_followed(self, name):
        if namespace.is_internal(name):
            self._internal.add(name)
            return False
        return len(self._variables) < _FOLLOWED

    def _bind(self, name, found, known, added, changed):
        """Remember what a name is bound to now."""
        value = found.get(name)
        before = self._variables.get(name)
        now = _Variable(value, namespace.is_hidden(self._shell, name, value), known)
        self._variables[name] = now
        if not now.hidden:
            constant = type(now.content) is _Constant
            if before is None or before.hidden:
                added.append(name)
            elif not (constant and now.content == before.content):
                changed.append(name)
            if not constant and (now.content is not None or now.reference is not None):
                self._watched[name] = None
                return
        self._watched.pop(name, None)

    def _order(self, code, fresh):
        """The names to look into, those that the code mentions first."""
        watched = self._watched
        mentioned = [name for name in dict.fromkeys(_WORD.findall(code[:_CODE])) if name in watched]
        others = watched.keys() - set(mentioned) if mentioned else watched
        return [name for names in (mentioned, others) for name in names if name not in fresh]

    def _look_inside(self, found, names, known, deadline, changed):
        """Find objects that were changed in place. Returns whether the time was over first."""
        for number, name in enumerate(names):
            if number % _LOOK_AT_CLOCK == 0 and time.monotonic() > deadline:
                return True
            value = found.get(name)
            variable = self._variables[name]
            if not variable.is_same(value):
                self._bind(name, found, known, [], changed)
                continue
            if variable.content is None:
                continue
            now = _content(value, known)
            if now != variable.content:
                if now is _UNSEEN or variable.content is not _UNSEEN:
                    changed.append(name)
                variable.content = now
        return False
