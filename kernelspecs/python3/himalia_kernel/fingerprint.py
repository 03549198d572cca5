"""A cheap value that is another one after an object was changed in most of the ways that matter.

It never runs code of the object. Its cost is bounded whatever the object is: large things are sampled, so a change in
the middle of one can be missed; what is reported as changed did change, or was bound anew.

What is looked at: small numbers and strings by value; the length and 64 items of list, tuple, dict, set and deque, three
levels deep; numpy arrays and columns of pandas frames by a checksum (all of 32 KiB, a sample beyond); the attributes of
an instance by their identity, or value if small. Anything else by its identity alone.
"""

import gc
import types
import zlib
from collections import deque
from itertools import islice

from himalia_kernel import statics

_ITEMS = 64  # items of one container
_NODES = 256  # items of all containers of one variable
_DEPTH = 3
_SMALL_TEXT = 256  # characters of a string that is compared by value
_SMALL_INTEGER = 1 << 256
_WHOLE = 32 * 1024  # bytes of an array that are all looked at
_SAMPLES = 128  # elements of a larger array
_COLUMNS = 64  # columns of a frame

_CONTAINERS = {list, tuple, dict, set, frozenset, deque}
# Objects that are not changed in place, or whose changes do not belong to the variable.
_FIXED = {
    str, bytes, int, float, complex, bool, type(None), type(...), range, slice, type, types.FunctionType,
    types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.GeneratorType, types.CoroutineType,
}  # fmt: skip
_CONTAINER_IDS = {id(cls) for cls in _CONTAINERS}
_FIXED_IDS = {id(cls) for cls in _FIXED}


def is_value(thing):
    """Whether an object is a small constant, the same as every other one that equals it."""
    cls = type(thing)
    if cls is int:
        return -_SMALL_INTEGER < thing < _SMALL_INTEGER
    if cls is str or cls is bytes:
        return len(thing) <= _SMALL_TEXT
    return cls is float or cls is bool or thing is None or cls is complex


def kinds():
    """Of the loaded libraries: `{id of a class: function from its instance to a fingerprint}`."""
    found = {}
    for module, name, look in (
        ("numpy", "ndarray", _array),
        ("pandas", "DataFrame", _frame),
        ("pandas", "Series", _frame),
        ("polars", "DataFrame", _polars_frame),
    ):
        cls = statics.loaded_class(module, name)
        if cls is not None:
            found[id(cls)] = look
    return found


def content(thing, known):
    """What can change inside of an object, as something to compare; None if nothing can. `known`: of `kinds()`."""
    ident = id(type(thing))
    if ident in _FIXED_IDS:
        return None
    if ident in _CONTAINER_IDS:
        return _container(thing, _DEPTH, [_NODES])
    look = known.get(ident)
    if look is not None:
        try:
            return look(thing)
        except Exception:  # a library that keeps its data in another way than we know
            return None
    if type(thing) is bytearray:
        return (len(thing), zlib.crc32(thing[:_WHOLE]))
    return _instance(thing)


def _token(thing, depth, left):
    """What stands for one item: small constants by value, containers by their items, others by identity."""
    if is_value(thing):
        return thing
    if depth > 0 and left[0] > 0 and id(type(thing)) in _CONTAINER_IDS:
        return (id(thing), _container(thing, depth, left))
    return id(thing)


def _container(thing, depth, left):
    length = len(thing)
    some = min(length, _ITEMS, left[0])
    left[0] -= some
    cls = type(thing)
    if cls is dict:
        items = _ends(thing.items(), length, some)
        return (length, *((_token(key, 0, left), _token(value, depth - 1, left)) for key, value in items))
    if cls is list or cls is tuple:
        items = thing[:] if some == length else [thing[n * length // some] for n in range(some)] + list(thing[-1:])
    elif cls is deque:
        items = _ends(thing, length, some)
    else:
        items = list(islice(thing, some))
    return (length, *[_token(item, depth - 1, left) for item in items])


def _ends(things, length, some):
    if some == length:
        return list(things)
    return list(islice(things, some // 2)) + list(islice(reversed(things), some - some // 2))


def _instance(thing):
    """The attributes of an instance of a class that was made by a class statement."""
    classes = statics.mro(type(thing))
    if not statics.flags(classes[0]) & statics.HEAP_TYPE or any(base is type for base in classes):
        return None
    for base in classes:
        if id(base) in _CONTAINER_IDS:
            return (base.__len__(thing),)
    # Asking for `__dict__` would make Python build one for an object that has done without.
    tokens = []
    for reference in gc.get_referents(thing):
        if type(reference) is dict and len(reference) <= _ITEMS:
            # The attributes themselves once they are a dict, so that both ways of keeping them look the same.
            tokens.extend(_hashable(value) for value in list(reference.values()))
        else:
            tokens.append(_hashable(reference))
    return frozenset(tokens)


def _hashable(thing):
    return (type(thing) is float, thing) if is_value(thing) else (id(thing), _length(thing))


def _length(thing):
    return len(thing) if id(type(thing)) in _CONTAINER_IDS else -1


# Libraries.


def _array(array):
    head = (array.shape, array.strides, array.dtype.str)
    if array.dtype.kind == "O":
        size = array.size
        some = min(size, _ITEMS)
        flat = array.flat
        return (*head, *[_token(flat[n * size // some], 1, [_ITEMS]) for n in range(some)])
    if array.dtype.hasobject or not _is_memory(array):
        return head
    return (*head, _checksum(array))


def _is_memory(array):
    """Whether the elements are ordinary memory. A mapped file may be slow, or gone, which ends the process."""
    base = array
    for _ in range(8):
        base = base.base
        if base is None or type(base) is bytes or type(base) is bytearray:
            return True
        if type(base) is not type(array):
            return False
    return False


def _checksum(array):
    """The same for equal elements, however they lie in memory."""
    if array.nbytes <= _WHOLE:
        return zlib.crc32(array.tobytes())
    if array.ndim == 1:
        flat = array
    elif array.flags.forc:
        flat = array.reshape(-1, order="A")
    else:
        flat = None
    if flat is None:
        size, flat = array.size, array.flat
        picked = [flat[n * size // _SAMPLES].tobytes() for n in range(_SAMPLES)]
        return zlib.crc32(b"".join(picked))
    # Views of single elements can be large too (strings of fixed width).
    some = max(1, min(_SAMPLES, _WHOLE // array.itemsize))
    summed = zlib.crc32(flat[:some].tobytes())
    summed = zlib.crc32(flat[-some:].tobytes(), summed)
    return zlib.crc32(flat[:: max(1, flat.size // some)][: 2 * some].tobytes(), summed)


def _frame(frame):
    """Column by column: reading a frame may join its blocks, which is no change."""
    attributes = statics.instance_dict(frame)
    manager = attributes["_mgr"]
    columns = {}
    for block in manager.blocks:
        values = block.values
        for row, position in enumerate(islice(block.mgr_locs.as_array, _COLUMNS)):
            columns[int(position)] = _column(values, row)
            if len(columns) >= _COLUMNS:
                break
    axes = tuple(map(id, manager.axes))
    named = attributes.get("_name")
    return (axes, named if is_value(named) else id(named), tuple(sorted(columns.items(), key=_first)))


def _first(pair):
    return pair[0]


def _column(values, row):
    numpy_array = statics.loaded_class("numpy", "ndarray")
    if type(values) is numpy_array:
        return _elements(values[row] if values.ndim == 2 else values)
    if not f"{statics.module_name(type(values))}.".startswith("pandas."):
        return id(values)
    arrow = getattr(values, "_pa_array", None)
    if arrow is not None:
        return id(arrow)
    parts = [getattr(values, name, None) for name in ("_ndarray", "_data", "_mask")]
    parts = [part[row] if part.ndim == 2 else part for part in parts if type(part) is numpy_array]
    return tuple(map(_elements, parts)) or id(values)


def _elements(array):
    if array.dtype.hasobject:
        size = array.size
        some = min(size, _ITEMS)
        return (size, *[_token(array[n * size // some], 1, [_ITEMS]) for n in range(some)])
    return (array.dtype.str, array.size, _checksum(array) if _is_memory(array) else None)


def _polars_frame(frame):
    return (id(frame._df), frame.shape, tuple(frame.columns[:_COLUMNS]))
