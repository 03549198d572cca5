"""Which names of the user's namespace are the user's."""

import re

# Characters of a name; variables with longer ones are not reported.
NAME = 200

# IPython's records of inputs and outputs, and what Python keeps in every module.
_NOT_THEIRS = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_[dio]h|_exit_code|In|Out|__\w*__", re.ASCII)


def is_internal(name):
    """Whether a name is IPython's or Python's own, whatever it is bound to, or is no name that can be reported."""
    return type(name) is not str or len(name) > NAME or _NOT_THEIRS.fullmatch(name) is not None


def is_hidden(shell, name, value):
    """Whether a name is bound to what it was bound to before the first cell, such as `exit`."""
    hidden = shell.user_ns_hidden
    return name in hidden and hidden[name] is value


def variables(shell):
    """A copy of the user's variables by name, in the order of their definition."""
    return {
        name: value
        for name, value in snapshot(shell.user_ns)
        if not is_internal(name) and not is_hidden(shell, name, value)
    }


def snapshot(mapping, attempts=10):
    """The items of a dict that other threads may change meanwhile. RuntimeError if it never stands still."""
    for _ in range(attempts - 1):
        try:
            return list(mapping.items())
        except RuntimeError:
            continue
    return list(mapping.items())
