"""How pages show JSON and name their headings."""

import json
import re

WIDTH = 118


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def formatted(value, indent=0, used=0):
    """JSON with as much on a line as fits. `used` columns of the first line are taken."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + used + len(line) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    inner = indent + 1
    if isinstance(value, dict):
        parts = []
        for name, member in value.items():
            key = f"{json.dumps(name, ensure_ascii=False)}: "
            parts.append(key + formatted(member, inner, len(key)))
        opening, closing = "{", "}"
    else:
        parts = [formatted(item, inner) for item in value]
        opening, closing = "[", "]"
    lines, current = [], ""
    for part in parts:
        joined = f"{current}, {part}" if current else part
        if current and ("\n" in part or "\n" in current or inner + len(joined) > WIDTH - 1):
            lines.append(current + ",")
            current = part
        else:
            current = joined
    lines.append(current)
    return opening + ("\n" + " " * inner).join(lines) + closing
