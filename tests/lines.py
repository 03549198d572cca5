#!/usr/bin/env python3
"""Lines of Rust of the product: `lines.py` prints those of each crate and their sum.

Counted are all lines below `crates/*/src` without tests: modules under `#[cfg(test)]`, in their own files or at the end of one. The crate
`testkit` is for tests alone.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEST_FILE = re.compile(r"^\s*#\[cfg\(test\)\]\n\s*(?:pub(?:\(\w+\))? )?mod (\w+);", re.MULTILINE)
TEST_END = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{", re.MULTILINE)


def modules_of(path):
    """The directory that has the modules which a file declares."""
    return path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")


def of_crate(crate):
    """Product lines of one crate."""
    texts = {path: path.read_text() for path in (crate / "src").rglob("*.rs")}
    tests = {modules_of(path) / name for path, text in texts.items() for name in TEST_FILE.findall(text)}
    total = 0
    for path, text in texts.items():
        if any(test == path.with_suffix("") or test in path.parents for test in tests):
            continue
        found = TEST_END.search(text)
        total += text[: found.start() if found else None].count("\n")
    return total


def of_product():
    """Product lines by crate."""
    crates = sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml"))
    return {crate.name: of_crate(crate) for crate in crates if crate.name != "testkit"}


if __name__ == "__main__":
    lines = of_product()
    for name, count in sorted(lines.items(), key=lambda item: -item[1]):
        print(f"{count:8,} {name}")
    print(f"{sum(lines.values()):8,} all")
