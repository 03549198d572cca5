#!/usr/bin/env python3
"""Makes `src/schema.ts` from docs/openapi.json: a type for each schema, and the input and result of each operation.

`--check`: says whether it is up to date.
"""

import json
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
DESCRIPTION = PACKAGE.parents[1] / "docs" / "openapi.json"
TARGET = PACKAGE / "src" / "schema.ts"
METHODS = ("get", "put", "post", "patch", "delete")
HEAD = """/** Made from docs/openapi.json by `generate.py`: change the API, and run `make openapi`. */

"""
# Headers that the client itself sets, or that only matter to caches.
OWN_HEADERS = {"If-None-Match", "Last-Event-ID", "X-Himalia-Caller", "Idempotency-Key"}


def name_of(reference):
    return reference.rpartition("/")[2]


def key(name):
    return name if re.fullmatch(r"[A-Za-z_$][\w$]*", name) else json.dumps(name)


def doc(schema, indent):
    """A comment with what the description says."""
    text = (schema.get("description") or "").strip().replace("*/", "* /")
    lines = [*text.splitlines(), *(["@deprecated"] if schema.get("deprecated") else [])]
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    return f"{indent}/**\n" + "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines) + f"{indent} */\n"


def union(types):
    """Each type once."""
    return " | ".join(dict.fromkeys(types))


def type_of(schema, indent=""):
    """The TypeScript type of a schema."""
    if schema is True or schema == {}:
        return "unknown"
    if "$ref" in schema:
        return name_of(schema["$ref"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return union([json.dumps(value) for value in schema["enum"]])
    parts = [union([type_of(one, indent) for one in schema[word]]) for word in ("oneOf", "anyOf") if word in schema]
    parts += [type_of(one, indent) for one in schema.get("allOf", [])]
    if "properties" in schema or not parts:
        parts.append(plain(schema, indent))
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else " & ".join(f"({part})" if " | " in part else part for part in parts)


def plain(schema, indent):
    """The type of a schema without references."""
    kinds = schema.get("type", "object" if "properties" in schema else None)
    if kinds is None:
        return "unknown"
    return union([of_kind(kind, schema, indent) for kind in (kinds if isinstance(kinds, list) else [kinds])])


def of_kind(kind, schema, indent):
    if kind in ("integer", "number"):
        return "number"
    if kind in ("string", "boolean", "null"):
        return kind
    if kind == "array":
        item = type_of(schema.get("items", {}), indent)
        return f"{item}[]" if re.fullmatch(r"\w+", item) else f"({item})[]"
    properties = schema.get("properties")
    if not properties:
        extra = schema.get("additionalProperties", True)
        return "{ [name: string]: never }" if extra is False else f"{{ [name: string]: {type_of(extra, indent)} }}"
    return record(properties, set(schema.get("required", [])), indent)


def record(properties, required, indent):
    inner = indent + "  "
    lines = [
        f"{doc(one, inner) if isinstance(one, dict) else ''}{inner}{key(name)}{'' if name in required else '?'}: "
        f"{type_of(one, inner)}{'' if name in required else ' | undefined'};\n"
        for name, one in properties.items()
    ]
    return "{\n" + "".join(lines) + indent + "}"


def parameters(operation, place, indent):
    found = [one for one in operation.get("parameters", []) if one["in"] == place and one["name"] not in OWN_HEADERS]
    properties = {one["name"]: {**one["schema"], "description": one.get("description", "")} for one in found}
    required = {one["name"] for one in found if one.get("required")}
    return record(properties, required, indent) if properties else None, bool(required)


def input_of(operation):
    members = []
    for place in ("path", "query"):
        found, required = parameters(operation, place, "      ")
        if found:
            members.append(f"      {place}{'' if required else '?'}: {found};\n")
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        mark = "" if operation["requestBody"].get("required") else "?"
        members.append(f"      body{mark}: {type_of(content['application/json']['schema'], '      ')};\n")
    return "{\n" + "".join(members) + "    }" if members else "{ path?: undefined }"


def result_of(operation):
    contents = [answer.get("content", {}) for status, answer in operation["responses"].items() if status.startswith("2")]
    types = [type_of(one["application/json"].get("schema", {}), "    ") for one in contents if "application/json" in one]
    return union(types) if types else "undefined"


def generated(description):
    out = [HEAD]
    for name, schema in description["components"]["schemas"].items():
        kind = type_of(schema)
        out.append(doc(schema, ""))
        out.append(f"export interface {name} {kind}\n\n" if re.fullmatch(r"\{\n(  .*\n)*\}", kind) else f"export type {name} = {kind};\n\n")
    routes = []
    out.append("/** The input and the result of each operation. The result is that of JSON; streams and bytes have none. */\nexport interface Operations {\n")
    for path, methods in description["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                routes.append(f"  {operation['operationId']}: '{method.upper()} {path}'")
                out.append(doc({"description": operation.get("summary")}, "  "))
                out.append(f"  {operation['operationId']}: {{\n    input: {input_of(operation)};\n    result: {result_of(operation)};\n  }};\n")
    out.append("}\n\n/** The method and the path of each operation. */\nexport const ROUTES: { readonly [O in keyof Operations]: string } = {\n")
    return "".join(out) + ",\n".join(routes) + "\n};\n"


def main():
    made = generated(json.loads(DESCRIPTION.read_text()))
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != made:
            sys.exit("clients/javascript/src/schema.ts is not made from docs/openapi.json. Run clients/javascript/generate.py")
    else:
        TARGET.write_text(made)


if __name__ == "__main__":
    main()
