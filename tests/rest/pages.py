#!/usr/bin/env python3
"""Writes the operations of docs/reference/rest from docs/openapi.json and from the answers of a gateway, tests/rest/answers.json.

`tests/rest/pages.py` compares, `tests/rest/pages.py --write` writes. The text above `<!-- operations -->` in a page is written by hand.
"""

import json
import re
import sys
from pathlib import Path

from layout import formatted, slug

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference" / "rest"
BEGIN, END = "<!-- operations: made by `make rest` -->\n", "<!-- operations end -->\n"
DESCRIPTION = json.loads((ROOT / "docs" / "openapi.json").read_text())
ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text())
SCHEMAS = DESCRIPTION["components"]["schemas"]

# Operations whose tag is not the name of their page.
MOVED = {
    "finish_grant": "credentials",
    "get_description": "README",
    "draft_skill": "skills",
    "list_skills": "skills",
    "publish_skill": "skills",
    "delete_skill": "skills",
    "get_skill": "skills",
}
# Codes that every operation can return; the page README explains them.
COMMON = {
    "bad_request",
    "unauthenticated",
    "too_many_wrong_tokens",
    "forbidden",
    "not_found",
    "body_timeout",
    "body_too_large",
    "unsupported_encoding",
    "over_budget",
    "internal",
    "unavailable",
    "timeout",
}
# Operations that a page begins with.
FIRST = ("execute", "list_executions", "create_prompt", "list_prompts")
METHODS = {"post": 0, "put": 1, "get": 2, "patch": 3, "delete": 4}


def operations():
    """{page: [(path, method, operation)]}, the shortest paths first."""
    found = {}
    for path, methods in DESCRIPTION["paths"].items():
        for method, operation in methods.items():
            if method in METHODS:
                page = MOVED.get(operation["operationId"], operation["tags"][0])
                found.setdefault(page, []).append((path, method, operation))
    for listed in found.values():
        listed.sort(key=lambda one: (one[2]["operationId"] not in FIRST, one[0].count("/"), one[0].split("{")[0], one[0], METHODS[one[1]]))
    return found


def named(reference):
    """The name of a schema or a response."""
    return reference.rsplit("/", 1)[1]


def resolved(part, kind):
    """A part of the description behind its reference."""
    return DESCRIPTION["components"][kind][named(part["$ref"])] if "$ref" in part else part


def cell(text):
    """A text in a cell of a table."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


class Objects:
    """The schemas that pages show: each one at its first page."""

    def __init__(self):
        self.place = {}

    def type(self, schema, page, queue):
        """The type of a value; named objects are queued for the page that needs them first."""
        if "$ref" in schema:
            name = named(schema["$ref"])
            target = SCHEMAS[name]
            if "properties" not in target and not self.variants(target):
                return self.type(target, page, queue)
            if name not in self.place:
                self.place[name] = page
                queue.append(name)
            where = "" if self.place[name] == page else f"{self.place[name]}.md"
            return f"[`{name}`]({where}#{slug(name)})"
        values = [one["const"] for one in schema.get("oneOf", []) if "const" in one] or schema.get("enum")
        if values:
            return ", ".join(f"`{value}`" for value in values)
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            kinds = list(dict.fromkeys(self.type(one, page, queue) for one in options))
            return " or ".join(kinds)
        kind = schema.get("type", "any")
        kinds = kind if isinstance(kind, list) else [kind]
        if "array" in kinds and isinstance(schema.get("items"), dict):
            inner = f"array of {self.type(schema['items'], page, queue)}"
            return " or ".join(inner if one == "array" else one for one in kinds)
        return " or ".join(kinds)

    @staticmethod
    def variants(schema):
        """The variants of a schema that are objects."""
        return [one for one in schema.get("oneOf", []) + schema.get("anyOf", []) if "properties" in one or "$ref" in one]

    def base(self, name, page):
        """An earlier object of the page whose members are all in this one, if it is a large one."""
        own = SCHEMAS[name].get("properties", {})
        for other, place in self.place.items():
            if other == name:
                return None
            members = SCHEMAS[other].get("properties", {})
            if place == page and 10 < len(members) < len(own) and all(own.get(key) == member for key, member in members.items()):
                return other
        return None

    def rows(self, schema, page, queue):
        """The members of an object as rows."""
        required = set(schema.get("required", []))
        for name, member in schema.get("properties", {}).items():
            type_ = self.type(member, page, queue)
            text = member.get("description") or (resolved(member, "schemas").get("description") if "$ref" in member else "")
            yield name, type_, name in required, cell(text)

    def section(self, name, page, queue):
        """The part of a page about one object."""
        schema = SCHEMAS[name]
        text = f"### `{name}`\n\n"
        if schema.get("description"):
            text += cell(schema["description"]) + "\n\n"
        parts = [schema] if "properties" in schema else self.variants(schema)
        rows = []
        base = self.base(name, page)
        if base:
            text += f"It has the members of [`{base}`](#{slug(base)}), and:\n\n"
            parts = [schema | {"properties": {key: member for key, member in schema["properties"].items() if key not in SCHEMAS[base]["properties"]}}]
        for part in parts:
            if "$ref" in part:
                rows.append(f"| {self.type(part, page, queue)} | | |\n")
                continue
            rows += [f"| `{member}` | {type_} | {meaning} |\n" for member, type_, _, meaning in self.rows(part, page, queue)]
        return text + "| member | type | meaning |\n|---|---|---|\n" + "".join(dict.fromkeys(rows))


def command(example):
    """The request as a call of curl."""
    method = f"-X {example['method']} " if example["method"] not in ("GET", "POST") or (example["method"] == "POST" and "body" not in example) else ""
    stream = "-N " if example.get("stream") else ""
    lines = [f'curl {stream}{method}"$URL{example["path"]}" -H "Authorization: Bearer $TOKEN"']
    lines += [f"-H '{name}: {value}'" for name, value in example.get("headers", {}).items()]
    if "file" in example:
        lines.append(f"--data-binary @{example['file']}")
    elif "body" in example:
        lines.append("-d '" + formatted(example["body"]).replace("'", "'\\''") + "'")
    return " \\\n  ".join(lines)


def shortened(value, shown):
    """An answer without what the page has shown already: of an object with the same members only the first ones, of a long text the beginning."""
    if isinstance(value, dict):
        names = frozenset(value)
        if len(names) > 12:
            if any(len(names & other) > 0.8 * len(names) for other in shown):
                return dict(list(value.items())[:4]) | {"…": "…"}
            shown.append(names)
        return {name: shortened(member, shown) for name, member in value.items()}
    if isinstance(value, list):
        items = [shortened(item, shown) for item in value[:3]]
        return items + ["…"] if len(value) > 3 and isinstance(value[0], dict) else [shortened(item, shown) for item in value]
    return value[:120] + "…" if isinstance(value, str) and len(value) > 200 else value


def answer(example, shown):
    """The answer, as far as it is a text; `shown` are the objects that the page has already."""
    status = f"{example['status']}"
    if example.get("answer") is None:
        kind = f", `{example['type']}`" if example.get("type") else ""
        return f"{status}{kind}.\n" if kind else f"{status}, without a body.\n"
    language = "json" if "json" in example["type"] and "ndjson" not in example["type"] else "text"
    text = formatted(shortened(example["answer"], shown)) if language == "json" else "\n".join(line[:300] + "…" * (len(line) > 300) for line in example["answer"].rstrip("\n").split("\n")[:40])
    return f"{status}:\n\n```{language}\n{text}\n```\n"


def codes(operation):
    """The codes of errors that not every operation has."""
    found = []
    for status, response in operation["responses"].items():
        if status[0] in "45" and "$ref" in response:
            found += [code for code in named(response["$ref"]).split("_", 1)[1].split(".") if code not in COMMON]
    return [code for code in dict.fromkeys(found)]


def section(path, method, operation, page, objects, queue, shown):
    """The part of a page about one operation."""
    text = f"### {operation['summary']}\n\n`{method.upper()} {path}`, operation `{operation['operationId']}`\n\n"
    if operation.get("description"):
        text += operation["description"].strip() + "\n\n"
    example = ANSWERS[operation["operationId"]]
    text += f"```sh\n{command(example)}\n```\n\n{answer(example, shown)}"
    rows = []
    for parameter in operation.get("parameters", []):
        where = {"path": "path", "query": "query", "header": "header"}[parameter["in"]]
        type_ = objects.type(parameter["schema"], page, queue)
        rows.append(f"| `{parameter['name']}` | {where} | {type_} | {cell(parameter.get('description'))} |\n")
    body = operation.get("requestBody")
    for kind, content in body["content"].items() if body else ():
        schema = resolved(content["schema"], "schemas")
        if "properties" not in schema:
            rows.append(f"| | body | `{kind}` | {cell(schema.get('description'))} |\n")
        for name, type_, required, meaning in objects.rows(schema, page, queue):
            rows.append(f"| `{name}` | {'body, required' if required else 'body'} | {type_} | {meaning} |\n")
    if rows:
        text += "\n| parameter | in | type | meaning |\n|---|---|---|---|\n" + "".join(rows)
    answers = []
    for status, response in operation["responses"].items():
        if status[0] == "2":
            for kind, content in response.get("content", {}).items():
                answers.append(f"{status} `{kind}`: {objects.type(content['schema'], page, queue)}")
    answers = [one for one in answers if "[" in one]
    if answers:
        text += "\nAnswers: " + ", ".join(answers) + ".\n"
    errors = codes(operation)
    if errors:
        text += "\nErrors: " + ", ".join(f"[`{code}`](../errors.md#{code})" for code in errors) + ".\n"
    return text


def made():
    """{page: the text between its marks}."""
    found, objects = {}, Objects()
    listed = operations()
    order = [tag["name"] for tag in DESCRIPTION["tags"]]
    order.insert(order.index("workflows"), "skills")
    order = [page for page in order if page in listed and page != "description"]
    for page in order:
        queue, sections, bodies = [], [], []
        for path, method, operation in listed[page]:
            sections.append(section(path, method, operation, page, objects, queue, bodies))
        shown = []
        while queue:
            shown.append(objects.section(queue.pop(0), page, queue))
        text = "## Operations\n\n" + "\n".join(sections)
        if shown:
            text += "\n## Objects\n\n" + "\n".join(shown)
        found[page] = text
    rows = "".join(
        f"| `{method.upper()} {path}` | [{operation['summary']}]({page}.md#{slug(operation['summary'])}) |\n"
        for page in order
        for path, method, operation in listed[page]
    )
    path, method, operation = listed["README"][0]
    own = section(path, method, operation, "README", objects, [], [])
    found["README"] = f"## All operations\n\n| request | operation |\n|---|---|\n{rows}\n## Description\n\n{own}"
    return found


def main():
    """Returns the exit status."""
    stale = []
    for page, text in made().items():
        path = PAGES / f"{page}.md"
        before, rest = path.read_text().split(BEGIN)
        after = rest.split(END)[1]
        wanted = f"{before}{BEGIN}\n{text}\n{END}{after}"
        if "--write" in sys.argv[1:]:
            path.write_text(wanted)
        elif path.read_text() != wanted:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        print(f"{', '.join(stale)}: not as docs/openapi.json and tests/rest/answers.json have it; `tests/rest/pages.py --write`", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
