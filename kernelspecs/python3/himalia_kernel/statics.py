"""Looks at objects without running their code: no property, no `__getattr__`, no metaclass, no `__repr__`.

Every lookup goes through a descriptor of `type` itself, so whatever a class defines is data here. Classes are compared
by identity, since a metaclass may define `__eq__` and `__hash__`: never with `in` or as keys. Classes of libraries are
found in modules that are loaded already; nothing is imported.
"""

import sys
import types

mro = type.__dict__["__mro__"].__get__
class_dict = type.__dict__["__dict__"].__get__
flags = type.__dict__["__flags__"].__get__
_name = type.__dict__["__name__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_module_dict = types.ModuleType.__dict__["__dict__"].__get__

# Py_TPFLAGS_HEAPTYPE: made at run time, as every class statement does.
HEAP_TYPE = 1 << 9
_NAME_LIMIT = 200  # characters of a class's or a module's name


def type_name(cls):
    """The name of a class."""
    return _name(cls)[:_NAME_LIMIT]


def module_name(cls):
    """The module that a class says it is from; '' if it says something that is no string."""
    if not flags(cls) & HEAP_TYPE:
        return _static_module(cls)
    module = class_dict(cls).get("__module__")
    return module[:_NAME_LIMIT] if type(module) is str else ""


def _static_module(cls):
    module = class_dict(cls).get("__module__")
    if type(module) is str:
        return module
    # A class written in C has its module in its full name, which only `repr` and `__module__` show.
    module = type.__dict__["__module__"].__get__(cls)
    return module if type(module) is str else ""


def is_instance(thing, cls):
    """`isinstance` by the real type, which an object cannot lie about."""
    return any(base is cls for base in mro(type(thing)))


def instance_dict(thing):
    """The attributes of an object as a dict, or None if it has none or hides them behind code of its own."""
    for cls in mro(type(thing)):
        entry = class_dict(cls).get("__dict__")
        if entry is not None:
            if type(entry) is not types.GetSetDescriptorType and type(entry) is not types.MemberDescriptorType:
                return None
            found = entry.__get__(thing)
            return found if type(found) is dict else None
    return None


def attribute_names(thing, limit):
    """Names of attributes that an object and its classes define, at most `limit`."""
    found = {}
    for names in (instance_dict(thing) or {}, *(class_dict(cls) for cls in mro(type(thing)))):
        for name in list(names):
            if type(name) is str and len(found) < limit:
                found[name] = None
    return list(found)


def loaded(module, name):
    """What a loaded module has under a name, or None."""
    module = sys.modules.get(module)
    return _module_dict(module).get(name) if type(module) is types.ModuleType else None


def loaded_class(module, name):
    """The same if it is a class."""
    found = loaded(module, name)
    return found if found is not None and is_instance(found, type) else None


_LIBRARIES = ("numpy", "pandas", "polars", "pyarrow")


def is_of_library(thing):
    """Whether an object's class is of a library whose code may run: numpy, pandas, polars, pyarrow."""
    return module_name(type(thing)).partition(".")[0] in _LIBRARIES
