#!/usr/bin/env python3
"""Makes `himalia/_sync` from `himalia/_async`, which is the source of both. `--check`: says whether it is up to date."""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "himalia"
WORDS = [
    (r"await answer if inspect\.isawaitable\(answer\) else answer", "answer"),
    (r"AsyncIterator", "Iterator"),
    (r"from collections\.abc import Iterator, Iterator", "from collections.abc import Iterator"),
    (r"asynccontextmanager", "contextmanager"),
    (r"httpx\.AsyncClient", "httpx.Client"),
    (r"\bAsync(Gateway|Session|Files|Transport)\b", r"\1"),
    (r"async (def|with|for)\b", r"\1"),
    (r"`async with`", "`with`"),
    (r"\bawait ", ""),
    (r"__a(enter|exit)__", r"__\1__"),
    (r"\ba(iter_lines|iter_bytes|read|close)\b", r"\1"),
    (r"\basyncio\.sleep", "time.sleep"),
    (r"^import asyncio$", "import time"),
    (r"^    >>> def main\(\):\n    \.\.\.     with (.*)\n((?:    \.\.\. .*\n)+)", None),
]


def sync(text):
    """The synchronous form of a module."""
    for pattern, replacement in WORDS:
        if replacement is None:
            text = re.sub(pattern, _without_main, text, flags=re.MULTILINE)
        else:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return re.sub(r"^        answer = answer\n|^                answer = answer\n|^import inspect\n", "", text, flags=re.MULTILINE)


def _without_main(found):
    """An example needs no function around it."""
    inner = found[2].replace("    ...     ", "    ... ")
    return f"    >>> with {found[1]}  # doctest: +SKIP\n{inner}"


def main():
    stale = []
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        if source.name == "__init__.py":
            made = '"""Made from `_async` by `generate.py`: change that one."""\n'
        else:
            made = sync(source.read_text())
        target = PACKAGE / "_sync" / source.name
        if not target.exists() or target.read_text() != made:
            stale.append(target.name)
            if "--check" not in sys.argv:
                target.write_text(made)
    if "--check" in sys.argv and stale:
        sys.exit(f"clients/python/himalia/_sync is not made from _async: {', '.join(stale)}. Run clients/python/generate.py")


if __name__ == "__main__":
    main()
