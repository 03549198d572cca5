#!/usr/bin/env python3
"""The links of docs/start/install.md that add Himalia to VS Code and Cursor. `links.py --write` writes them into the page."""

import base64
import json
import sys
from urllib.parse import quote

import project

PAGE = project.ROOT / "docs" / "start" / "install.md"
BEGIN, END = "<!-- links -->\n", "<!-- end of links -->\n"
# Both hosts start the program: it finds the gateway of this machine, so that no token is in a link.
SERVER = {"command": "himalia", "args": ["mcp"]}


def vscode():
    config = json.dumps({"type": "stdio", **SERVER}, separators=(",", ":"))
    return f"https://vscode.dev/redirect/mcp/install?name=himalia&config={quote(config, safe='')}"


def cursor():
    config = base64.b64encode(json.dumps(SERVER, separators=(",", ":")).encode()).decode()
    return f"https://cursor.com/install-mcp?name=himalia&config={quote(config, safe='')}"


def lines():
    return f"- [Add to VS Code]({vscode()})\n- [Add to Cursor]({cursor()})\n"


def main():
    before, rest = PAGE.read_text().split(BEGIN)
    found, after = rest.split(END)
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(before + BEGIN + lines() + END + after)
    elif found != lines():
        sys.exit(f"{PAGE}: the links are not those of the code; packaging/release/links.py --write")


if __name__ == "__main__":
    main()
