"""Bounded text and numbers about one object, made without running its code.

Only objects of types that are known are looked into: Python's own containers and constants, numpy arrays and scalars,
frames. Of everything else one learns the type.
"""

import datetime
import decimal
import pathlib
import sys
import types
import uuid
from collections import deque
from itertools import islice

from himalia_kernel import statics

# Characters of a preview, items of one container in it, levels of containers.
TEXT = 200
_ITEMS = 8
_DEPTH = 3
_INTEGER_BITS = 1024
_COLUMNS = 20

_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_OPEN_CLOSE = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), deque: ("deque([", "])")}
_CONSTANTS = (float, bool, complex, type(None), type(...), types.NotImplementedType)


def describe(name, thing):
    """One row of the list of variables; what an object does not have is null."""
    row = brief(name, thing)
    look = _kinds().get(id(type(thing)))
    try:
        row |= look(thing) if look is not None else _of_builtin(thing)
    except Exception:  # it changes at this moment, or a library keeps its data in another way than we know
        pass
    if row["preview"] is None:
        row["preview"] = text(thing)
    return row


def brief(name, thing):
    """The same with nothing but the type."""
    cls = type(thing)
    return {
        "name": name,
        "type": statics.type_name(cls),
        "module": statics.module_name(cls),
        "shape": None,
        "dtype": None,
        "bytes": None,
        "length": None,
        "preview": None,
    }


def text(thing, limit=TEXT):
    """A representation of at most `limit` characters."""
    try:
        pieces, left = [], [limit]
        _write(thing, _DEPTH, pieces, left)
    except (RuntimeError, ValueError, OverflowError):
        return _type_only(thing)
    joined = "".join(pieces)
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def _of_builtin(thing):
    cls = type(thing)
    for base in statics.mro(cls):
        if id(base) in _SIZED_IDS:
            return {"length": base.__len__(thing), "bytes": base.__sizeof__(thing)}
    if cls is int or id(cls) in _CONSTANT_IDS:
        return {"bytes": sys.getsizeof(thing)}
    return {}


# Text.


def _write(thing, depth, pieces, left):
    """Append a representation; stops soon after `left` is used up."""
    cls = type(thing)
    if left[0] <= 0:
        return
    if id(cls) in _CONTAINER_IDS:
        _write_container(thing, depth, pieces, left)
        return
    piece = _atom(thing, left[0])
    pieces.append(piece)
    left[0] -= len(piece)


def _atom(thing, limit):
    cls = type(thing)
    if id(cls) in _CONSTANT_IDS:
        return repr(thing)
    if cls is str or cls is bytes or cls is bytearray:
        shown = repr(thing[: limit + 1])
        return shown if len(thing) <= limit else shown[:limit] + "…"
    if cls is int:
        return repr(thing) if thing.bit_length() <= _INTEGER_BITS else f"<int of {thing.bit_length()} bits>"
    if cls is datetime.datetime or cls is datetime.time:
        return thing.isoformat() if id(type(thing.tzinfo)) in _ZONE_IDS else _type_only(thing)
    if id(cls) in _SHORT_IDS:
        return str(thing)[: limit + 1]
    if cls is decimal.Decimal:
        return str(thing)[: limit + 1] if len(thing.as_tuple().digits) <= limit else _type_only(thing)
    if cls is types.FunctionType:
        code = thing.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return f"def {thing.__name__}({', '.join(islice(names, _ITEMS))}{', …' if len(names) > _ITEMS else ''})"
    if cls is types.BuiltinFunctionType:
        return f"<built-in {thing.__name__}>"
    if cls is types.ModuleType:
        name = statics.instance_dict(thing).get("__name__")
        return f"<module {name[:limit]}>" if type(name) is str else "<module>"
    if statics.is_instance(thing, type):
        return f"<class {statics.module_name(thing)}.{statics.type_name(thing)}>"
    return _scalar(thing, limit) or _type_only(thing)


def _type_only(thing):
    cls = type(thing)
    return f"<{statics.module_name(cls)}.{statics.type_name(cls)}>"


def _scalar(thing, limit):
    """The text of a numpy or pandas scalar, or None."""
    generic = statics.loaded_class("numpy", "generic")
    if generic is not None and statics.is_instance(thing, generic):
        if statics.module_name(type(thing)) == "numpy" and statics.type_name(type(thing)) not in ("void", "object_"):
            value = generic.item(thing)
            return str(value)[: limit + 1] if type(value) is not type(thing) else None
    return _pandas_scalar(thing, limit) or _dtype(thing, limit)


def _pandas_scalar(thing, limit):
    cls = type(thing)
    if cls is statics.loaded_class("pandas", "Timestamp"):
        return thing.isoformat() if _is_known_zone(thing.tzinfo) else None
    if cls is statics.loaded_class("pandas", "Period"):
        return str(thing)[: limit + 1]
    if cls is statics.loaded_class("pandas", "Timedelta"):
        return str(thing).removesuffix(" 00:00:00")
    if cls is statics.loaded_class("pandas", "Interval"):
        opening, closing = "[" if thing.closed_left else "(", "]" if thing.closed_right else ")"
        return f"{opening}{_atom(thing.left, limit)}, {_atom(thing.right, limit)}{closing}"
    return None


def _is_known_zone(zone):
    cls = type(zone)
    return id(cls) in _ZONE_IDS or statics.module_name(cls).partition(".")[0] in _ZONE_MODULES


def _dtype(thing, limit):
    """The name of a dtype of numpy or pandas, or None."""
    for module, name in (("numpy", "dtype"), ("pandas.api.extensions", "ExtensionDtype")):
        cls = statics.loaded_class(module, name)
        if cls is not None and statics.is_instance(thing, cls):
            return dtype_name(thing)[: limit + 1]
    return None


def _write_container(thing, depth, pieces, left):
    cls, length = type(thing), len(thing)
    if cls is dict:
        opening, closing = "{}"
    else:
        opening, closing = _OPEN_CLOSE[cls]
        if cls is set and not length:
            opening, closing = "set(", ")"
    if cls is tuple and length == 1:
        closing = ",)"
    pieces.append(opening)
    left[0] -= len(opening) + len(closing)
    if depth <= 0 and length:
        pieces.append("…")
    else:
        first = list(islice(thing.items() if cls is dict else thing, _ITEMS))
        for number, item in enumerate(first):
            if left[0] <= 0:
                break
            if number:
                pieces.append(", ")
                left[0] -= 2
            if cls is dict:
                _write(item[0], depth - 1, pieces, left)
                pieces.append(": ")
                left[0] -= 2
                item = item[1]
            _write(item, depth - 1, pieces, left)
        if length > len(first):
            pieces.append(", …")
    pieces.append(closing)


_CONTAINER_IDS = {id(cls) for cls in _CONTAINERS}
_SIZED_IDS = {id(cls) for cls in (*_CONTAINERS, str, bytes, bytearray, range)}
_CONSTANT_IDS = {id(cls) for cls in _CONSTANTS}
_SHORT_IDS = {id(cls) for cls in (datetime.date, datetime.timedelta, uuid.UUID, pathlib.PosixPath, pathlib.PurePosixPath)}
_ZONE_MODULES = ("zoneinfo", "pytz")
_ZONE_IDS = {id(cls) for cls in (type(None), datetime.timezone)}


# Libraries: `{id of a class: function from its instance to the fields that it knows}`.


def _kinds():
    kinds = {}
    for module, name, look in (
        ("numpy", "ndarray", _array),
        ("pandas", "DataFrame", _frame),
        ("pandas", "Series", _series),
        ("polars", "DataFrame", _polars_frame),
        ("polars", "Series", _polars_series),
    ):
        cls = statics.loaded_class(module, name)
        if cls is not None:
            kinds[id(cls)] = look
    return kinds


def _array(array):
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype)[:TEXT],
        "bytes": array.nbytes,
        "length": array.shape[0] if array.ndim else None,
        "preview": _elements(array),
    }


def _elements(array):
    """The first elements."""
    if array.dtype.hasobject and array.dtype.kind != "O" or array.dtype.kind == "V":
        return None
    first = array.flat[:_ITEMS].tolist()
    pieces = [text(item, TEXT // 4) for item in first]
    return f"[{', '.join(pieces)}{', …' if array.size > len(first) else ''}]"[: 4 * TEXT]


def _frame(frame):
    rows, columns = frame.shape
    labels = frame.columns[:_COLUMNS].tolist()
    types_of = [dtype_name(dtype) for dtype in frame.dtypes.iloc[:_COLUMNS]]
    return {
        "shape": [rows, columns],
        "bytes": sum(_bytes(block.values) for block in islice(frame._mgr.blocks, 1000)),
        "length": rows,
        "preview": _columns(labels, types_of, columns),
    }


def _columns(labels, types_of, count):
    pieces = [f"{text(label, 40)}: {dtype[:40]}" for label, dtype in zip(labels, types_of, strict=True)]
    joined = ", ".join(pieces)[: 2 * TEXT]
    return joined + (", …" if count > len(pieces) else "")


def dtype_name(dtype):
    """The name of a dtype; of one that the user made, that of its class."""
    return str(dtype)[:TEXT] if statics.is_of_library(dtype) else statics.type_name(type(dtype))


def _bytes(values):
    return values.nbytes if statics.is_of_library(values) else 0


def _series(series):
    known = statics.is_of_library(series.dtype)
    return {
        "shape": [len(series)],
        "dtype": dtype_name(series.dtype),
        "bytes": _bytes(series.array),
        "length": len(series),
        "preview": _first(series.iloc[:_ITEMS].tolist(), len(series)) if known else None,
    }


def _first(items, length):
    return f"[{', '.join(text(item, 40) for item in items)}{', …' if length > len(items) else ''}]"


def _polars_frame(frame):
    rows, columns = frame.shape
    labels = frame.columns[:_COLUMNS]
    return {
        "shape": [rows, columns],
        "bytes": frame.estimated_size(),
        "length": rows,
        "preview": _columns(labels, [str(dtype) for dtype in frame.dtypes[:_COLUMNS]], columns),
    }


def _polars_series(series):
    return {
        "shape": [len(series)],
        "dtype": dtype_name(series.dtype),
        "bytes": series.estimated_size(),
        "length": len(series),
        "preview": _first(series[:_ITEMS].to_list(), len(series)),
    }
