"""The table of versions in docs/how-to/packages.md is that of the lock file. `HIMALIA_WRITE_DOCS=1` writes it."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "packages.md"
SPEC = ROOT / "kernelspecs" / "python3"
BEGIN, END = "<!-- versions -->\n", "<!-- end of versions -->\n"


def table():
    """Packages that requirements.in names, with the version for the oldest Python."""
    named = re.findall(r"^([a-z0-9-]+)", (SPEC / "requirements.in").read_text(), re.M)
    locked = {}
    for name, version in re.findall(r"^([a-z0-9-]+)==(\S+)", (SPEC / "requirements.lock").read_text(), re.M):
        locked.setdefault(name, version)
    rows = "".join(f"| {name} | {locked[name]} |\n" for name in sorted(named))
    return "| package | version |\n|---|---|\n" + rows


def test_the_versions_on_the_page_are_those_of_the_lock_file():
    text = PAGE.read_text()
    before, found, after = re.split(f"{BEGIN}|{END}", text)
    if os.environ.get("HIMALIA_WRITE_DOCS") == "1":
        PAGE.write_text(before + BEGIN + table() + END + after)
    else:
        assert found == table()
