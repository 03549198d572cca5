"""What Python shows of a JSON Schema: names, annotations, signatures, and classes of what is returned."""

import dataclasses
import inspect
import keyword
import re
from typing import Any, Dict, List, Literal, Optional, Union

# How deep a schema is followed. What is deeper is `Any`.
_DEPTH = 6
_SIMPLE = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}


def identifier(name, taken=()):
    """A name of Python for any name, which is not among those that are taken."""
    made = re.sub(r"\W", "_", name) or "_"
    if made[0].isdigit():
        made = f"_{made}"
    if keyword.iskeyword(made):
        made = f"{made}_"
    plain, number = made, 2
    while made in taken:
        made, number = f"{plain}_{number}", number + 1
    return made


def class_name(name, ending):
    """The name of a class, as `ListOrdersResult` for `list_orders`."""
    words = re.findall(r"[^\W_]+", name)
    return identifier("".join(word[:1].upper() + word[1:] for word in words) + ending)


def resolved(schema, root):
    """A schema without a reference to another part of its document, as far as there is one."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            break
        found = root
        for part in reference[1:].strip("/").split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            found = found.get(part) if isinstance(found, dict) else None
        schema = found
    return schema if isinstance(schema, dict) else {}


def _either(kinds):
    kinds = tuple(dict.fromkeys(kinds))
    return Union[kinds] if kinds else Any


def annotation(schema, root, depth=0):
    """The type of values that fit a schema; `Any` if there is none for them."""
    schema = resolved(schema, root)
    if depth > _DEPTH:
        return Any
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, (str, int, bool)) or one is None for one in choices):
        return Literal[tuple(choices)]
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            return _either(annotation(one, root, depth + 1) for one in schema[several])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _either(annotation({**schema, "type": one}, root, depth + 1) for one in kind)
    if kind == "array":
        return List[annotation(schema.get("items", {}), root, depth + 1)]
    if kind == "object":
        return Dict[str, Any]
    return _SIMPLE.get(kind, Any)


def signature(schema, returns):
    """The signature of a function with the properties of an object as parameters, and the name of the property of each.

    Required ones come first and may be given by position. The others are optional: what is not given is not sent. `None` if any name is
    allowed: then there is one more parameter, which takes the rest.
    """
    required = schema.get("required") or []
    properties = schema.get("properties") or {}
    parameters, names = [], {}
    # The gateway sorts members; the list of those that are required has its author's order.
    order = [name for name in required if name in properties] + [name for name in properties if name not in required]
    for name in order:
        shown = identifier(name, names)
        names[shown] = name
        kind = annotation(properties[name], schema)
        if name in required:
            parameters.append(inspect.Parameter(shown, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind))
        else:
            default = resolved(properties[name], schema).get("default")
            kind = kind if default is not None else Optional[kind]
            parameters.append(inspect.Parameter(shown, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    # A schema that says nothing of other names allows them, but its author has hardly thought of any.
    if schema.get("additionalProperties") not in (None, False) or "properties" not in schema:
        parameters.append(inspect.Parameter(identifier("more", names), inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters, return_annotation=returns), names


def arguments(bound, names):
    """The arguments of a call, by the names of the schema."""
    made = {}
    for parameter, value in bound.arguments.items():
        if bound.signature.parameters[parameter].kind is inspect.Parameter.VAR_KEYWORD:
            made.update(value)
        else:
            made[names[parameter]] = value
    return made


class Record:
    """An object that a tool has returned: its members are attributes, and items as those of a dict."""

    def __getitem__(self, name):
        return self.raw[name]

    def __contains__(self, name):
        return name in self.raw

    def __iter__(self):
        return iter(self.raw)

    def __len__(self):
        return len(self.raw)

    def keys(self):
        return self.raw.keys()

    def get(self, name, default=None):
        return self.raw.get(name, default)


def record_class(name, schema, root, module):
    """A dataclass for objects of a schema. A member that is missing is None; `raw` is the object as it came."""
    names = {}
    fields = []
    for member, one in (schema.get("properties") or {}).items():
        shown = identifier(member, {*names, "raw", "keys", "get"})
        names[shown] = member
        kind = annotation(one, root)
        if member not in (schema.get("required") or []):
            kind = Optional[kind]
        fields.append((shown, kind, dataclasses.field(default=None)))
    fields.append(("raw", dict, dataclasses.field(default_factory=dict, repr=False, compare=False)))
    made = dataclasses.make_dataclass(name, fields, bases=(Record,))
    made.__module__ = module
    made.__doc__ = schema.get("description") or "What the tool returned."
    made.members = names
    return made


class Records:
    """The classes of one result, as members of a module: that of the whole, and those of the objects in it, when there are some."""

    def __init__(self, name, schema, module):
        self._root = schema
        self._module = module
        self._classes = {}
        whole = resolved(schema, schema)
        self.whole = self._class(name, whole) if self._is_record(whole) else None

    @staticmethod
    def _is_record(schema):
        return bool(schema.get("properties"))

    def _class(self, name, schema):
        made = self._classes.get(id(schema))
        if made is None:
            name = identifier(name, vars(self._module))
            made = record_class(name, schema, self._root, self._module.__name__)
            setattr(self._module, name, made)
            self._classes[id(schema)] = made
        return made

    def of(self, value):
        """A value with its objects as records."""
        name = self.whole.__name__ if self.whole else "Result"
        return self._made(value, self._root, name, 0)

    def _made(self, value, schema, name, depth):
        schema = resolved(schema, self._root)
        if depth > _DEPTH:
            return value
        if isinstance(value, list):
            items = schema.get("items", {})
            return [self._made(one, items, f"{name}Item", depth + 1) for one in value]
        if isinstance(value, dict) and self._is_record(schema):
            kind = self._class(name, schema)
            properties = schema["properties"]
            made = {
                shown: self._made(value[member], properties[member], class_name(f"{name}_{shown}", ""), depth + 1)
                for shown, member in kind.members.items()
                if member in value
            }
            return kind(**made, raw=value)
        return value
