"""Modules with the tools of a server as functions, made when they are imported: `from himalia.servers import orders`.

A function has the name, the parameters and the description of its tool. It is awaited; `orders.sync` has the same functions for code
that does not await. A tool whose server says what it returns has a dataclass for that.
"""

import importlib.abc
import importlib.machinery
import inspect
import sys
import types

from himalia_inside import blocking, call_tool, sync
from himalia_inside.api import schemas_request, servers_request, value_of
from himalia_inside.errors import ToolError
from himalia_inside.schemas import Records, annotation, arguments, class_name, identifier, resolved, signature

PACKAGE = "himalia.servers"
# Characters of a documentation.
_DOC_CHARS = 4000


def names():
    """The servers of this session, by the names of their modules."""
    made = {}
    for server in blocking.answer(servers_request()):
        made[identifier(server["name"], made)] = server["name"]
    return made


def _schemas(server):
    after = ""
    while after is not None:
        page = blocking.answer(schemas_request(server, after))
        yield from page["tools"]
        after = page["next"]


def _documentation(tool, names):
    schema = tool["input_schema"]
    lines = [tool["description"].strip() or "No description."]
    if tool["read_only"]:
        lines.append("It only reads.")
    described = []
    for shown, name in names.items():
        one = resolved((schema.get("properties") or {})[name], schema)
        text = " ".join(str(one.get("description", "")).split())
        if text:
            described.append(f"{shown}: {text}")
    if described:
        lines.append("\n".join(described))
    text = "\n\n".join(lines)
    return text if len(text) <= _DOC_CHARS else text[: _DOC_CHARS - 1] + "…"


def _returned(tool, records):
    if records is None:
        return inspect.Signature.empty
    return records.whole or annotation(tool["output_schema"], tool["output_schema"])


class _Tool:
    """What the two functions of a tool have in common."""

    def __init__(self, module, server, name, tool):
        schema = tool.get("output_schema")
        records = Records(class_name(tool["name"], "Result"), schema, module) if isinstance(schema, dict) else None
        self._records = records
        self._id = f"{server}.{tool['name']}"
        self._signature, self._names = signature(tool["input_schema"], _returned(tool, records))
        self._documentation = _documentation(tool, self._names)
        self._module, self._name = module.__name__, name

    @property
    def result(self):
        return self._records.whole if self._records else None

    def _value(self, reply):
        value = value_of(reply)
        return self._records.of(value) if self._records and value is reply.content else value

    def _arguments(self, args, kwargs):
        try:
            return arguments(self._signature.bind(*args, **kwargs), self._names)
        except TypeError as error:
            raise TypeError(f"{self._id}: {error}; it is {self._name}{self._signature}") from None

    def _shown(self, function):
        function.__name__ = self._name
        function.__qualname__ = self._name
        function.__module__ = self._module
        function.__doc__ = self._documentation
        function.__signature__ = self._signature
        return function

    def awaited(self):
        # The line is that of the call, and wrong arguments are refused there.
        def function(*args, **kwargs):
            called = call_tool(self._id, self._arguments(args, kwargs))

            async def awaited():
                return self._value(await called)

            return awaited()

        return self._shown(function)

    def blocking(self):
        def function(*args, **kwargs):
            return self._value(sync.call_tool(self._id, self._arguments(args, kwargs)))

        return self._shown(function)


def _fill(module, server):
    """Make the functions of a server's tools."""
    # It may be reloaded.
    for name in vars(module).pop("__all__", ()):
        delattr(module, name)
    module.sync = types.SimpleNamespace()
    public = []
    for tool in _schemas(server):
        name = identifier(tool["name"], vars(module))
        one = _Tool(module, server, name, tool)
        setattr(module, name, one.awaited())
        setattr(module.sync, name, one.blocking())
        public.append(name)
        if one.result is not None:
            public.append(one.result.__name__)
    module.__all__ = public
    module.__doc__ = f"Tools of the server {server}, as functions that are awaited; `sync` has those that block."


class _Loader(importlib.abc.Loader):
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        wanted = module.__name__.rpartition(".")[2]
        try:
            known = names()
            if wanted not in known:
                there = ", ".join(known) or "none"
                raise ModuleNotFoundError(f"this session has no server {wanted}; there are: {there}", name=module.__name__)
            _fill(module, known[wanted])
        except ToolError as error:
            raise ImportError(str(error), name=module.__name__) from error


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        parent, _, _ = name.rpartition(".")
        return importlib.machinery.ModuleSpec(name, _Loader()) if parent == PACKAGE else None


def install():
    """Let modules below `himalia.servers` be imported."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.append(_Finder())
