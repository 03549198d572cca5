"""The home directory of a host zygote, which its kernels do not have.

The zygote's `HOME` is an empty directory of its own. Modules remember paths below it when they are imported; before the
first fork these become what they would be in a kernel, whose home directory `HIMALIA_HOME_OF_KERNELS` names.
"""

import os
import sys
from pathlib import Path

VARIABLE = "HIMALIA_HOME_OF_KERNELS"


def leave():
    """Put the kernels' home directory in the place of this process' own, wherever a module remembers it."""
    theirs, own = os.environ.pop(VARIABLE, ""), os.environ.get("HOME", "")
    if not theirs or not own or own == theirs:
        return
    move = Move(own, theirs)
    move.within_modules()
    matplotlib = sys.modules.get("matplotlib")
    # Each keeps its first answer in a closure.
    for function in ("get_configdir", "get_cachedir"):
        for cell in getattr(getattr(matplotlib, function, None), "__closure__", None) or ():
            cell.cell_contents = move.moved(cell.cell_contents)


class Move:
    """Puts the paths below one directory in the place of those below another one."""

    def __init__(self, own, theirs):
        self._own, self._theirs = own, theirs

    def within_modules(self):
        """Wherever a module or a class of it remembers such a path."""
        for name, module in list(sys.modules.items()):
            found = getattr(module, "__dict__", None)
            if isinstance(found, dict):
                self.within(found)
                for value in list(found.values()):
                    if isinstance(value, type) and value.__module__ == name:
                        self.within_class(value)

    def moved(self, value):
        """`value`, or what stands in its place; lists and dictionaries are changed themselves."""
        if type(value) is bytes and value.startswith(os.fsencode(self._own)):
            return os.fsencode(self.moved(os.fsdecode(value)))
        if type(value) is str:
            if value == self._own or value.startswith(self._own + os.sep):
                return self._theirs + value[len(self._own) :]
        elif isinstance(value, Path):
            text = str(value)
            found = self.moved(text)
            return value if found is text else type(value)(found)
        elif type(value) is tuple and any(self.moved(each) is not each for each in value):
            return tuple(self.moved(each) for each in value)
        elif type(value) is list:
            for index, each in enumerate(value):
                if type(each) is str or isinstance(each, Path):
                    value[index] = self.moved(each)
        elif type(value) is dict:
            for key, each in list(value.items()):
                if type(each) is str or isinstance(each, Path):
                    value[key] = self.moved(each)
        return value

    def within(self, names):
        """In the names of a module."""
        for name, value in list(names.items()):
            found = self.moved(value)
            if found is not value:
                names[name] = found

    def within_class(self, owner):
        """In the attributes of a class."""
        for name, value in list(vars(owner).items()):
            found = self.moved(value)
            if found is not value:
                setattr(owner, name, found)
