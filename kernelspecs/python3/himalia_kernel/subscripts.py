"""Finds what a failing line subscripted, and what keys that has, without running any of it."""

import ast
import types
from itertools import islice

from himalia_kernel import fingerprint, statics

# Characters of a cell that is parsed, keys of one container, containers of one statement.
_CELL = 100_000
_KEYS = 1000
_CONTAINERS = 8
_KEY = 80  # characters of one that is shown


def containers(failure):
    """`(expression, keys)` of dicts and frames that the failing statement names, at most 8."""
    found = {}
    for expression, thing in values(failure):
        keys = keys_of(thing, _KEYS)
        if keys is not None and len(found) < _CONTAINERS:
            found.setdefault(expression, keys)
    return list(found.items())


def values(failure):
    """`(expression, value)` of all that the failing statement names and that can be followed without running code."""
    text, line = failure.compiled
    if failure.frame is None or len(text) > _CELL:
        return
    for node in _expressions(text, line):
        known, thing = _value(node, failure.frame)
        if known:
            yield ast.unparse(node), thing


class Keys:
    """The first keys of a container: what they are called there, and a list."""

    def __init__(self, kind, found):
        self.kind = kind
        self.found = found
        self.names = [key for key in found if type(key) is str]


def keys_of(thing, limit):
    """The `Keys` of a dict, or the labels of a frame's columns (grouped or not) or of a series, or None."""
    cls = type(thing)
    if cls is statics.loaded_class("pandas.api.typing", "DataFrameGroupBy"):
        thing = (statics.instance_dict(thing) or {}).get("obj")
        cls = type(thing)
    if cls is dict:
        return Keys("keys", list(islice(thing, limit)))
    if cls is statics.loaded_class("pandas", "DataFrame"):
        return Keys("columns", thing.columns[:limit].tolist())
    if cls is statics.loaded_class("pandas", "Series"):
        return Keys("labels", thing.index[:limit].tolist())
    if cls is statics.loaded_class("polars", "DataFrame"):
        return Keys("columns", thing.columns[:limit])
    return None


def shown(keys, limit):
    """The first keys as text: strings and numbers as they are written, others by their type."""
    texts = [
        repr(key)[:_KEY] if fingerprint.is_value(key) else f"<{statics.type_name(type(key))}>"
        for key in islice(keys, limit)
    ]
    return [*texts, "…"] if len(keys) > limit else texts


def _expressions(text, line):
    """Names, attributes and items that the innermost statement around a line reads, subscripted ones first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    statement = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno:
            statement = node  # walked from the outside to the inside
    if statement is None:
        return []
    inside = list(ast.walk(statement))
    subscripted = [node.value for node in inside if isinstance(node, ast.Subscript)]
    called_on = [node.value for node in inside if isinstance(node, ast.Attribute)]
    return [*subscripted, *called_on, *(node for node in inside if isinstance(node, ast.Name))]


def _value(node, frame):
    """`(True, value)` of an expression that can be followed without running code, or `(False, None)`."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals):
            if node.id in names:
                return True, names[node.id]
    elif isinstance(node, ast.Attribute):
        known, thing = _value(node.value, frame)
        attributes = statics.instance_dict(thing) if known and type(thing) is not types.ModuleType else None
        if attributes is not None and node.attr in attributes:
            return True, attributes[node.attr]
    elif isinstance(node, ast.Subscript):
        known, thing = _value(node.value, frame)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if known and type(thing) is dict and fingerprint.is_value(key) and key in thing:
            return True, thing[key]
        if known and type(thing) is list and type(key) is int and -len(thing) <= key < len(thing):
            return True, thing[key]
    return False, None
