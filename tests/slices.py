#!/usr/bin/env python3
"""Counts slices by a range, such as `text[from..to]`, and subtractions with a length, such as `text.len() - 4`, in the code of each crate: they panic,
or wrap around, where a length is not the expected one.

`tests/slices.py` fails if a crate has more of them than its bounds below; if it has fewer, lower the bound. `get`, `split_at_checked`, `split_once`
and `strip_prefix` do not panic, nor do `checked_sub` and `saturating_sub`. `tests/slices.py CRATE...` lists the places of crates.

Only ranges and subtractions with `len()` count. An index by an enum or by a member of JSON cannot be wrong as a length can, and clippy's `indexing_slicing` would report these
too. Whole ranges (`[..]`) do not panic.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Crates that may have some: digests and formats of fixed lengths, and lengths that the same function has found or checked. All others have none,
# such as those that read what callers, servers and sandboxes send: credentials, facade, llm, oauth, oidc, packages, upstream, wire. A bound only falls.
BOUNDS = {
    "authority": 1,
    "azure": 1,
    "cli": 3,
    "connect": 4,
    "egress": 4,
    "engine": 1,
    "himalia": 3,
    "http": 5,
    "jail": 1,
    "journal": 22,
    "kernel": 9,
    "kernelspecs": 11,
    "kubernetes": 1,
    "link": 5,
    "mcp": 3,
    "model": 5,
    "provisioner": 2,
    "sandbox": 4,
    "session": 1,
    "shim": 2,
    "shim-protocol": 7,
    "skills": 2,
    "splice": 3,
    "testkit": 9,
    "tools": 3,
}

# Crates that may have subtractions with a length, in the same way: the same function has compared the two, or has added before what it takes away.
LENGTHS = {
    "connect": 1,
    "egress": 1,
    "http": 3,
    "journal": 2,
    "kernel": 2,
    "link": 1,
    "otlp": 1,
    "sandbox": 1,
    "shim": 1,
    "shim-protocol": 4,
    "testkit": 1,
    "tool-servers": 1,
    "tools": 1,
}

LENGTH = re.compile(r"\.len\(\)\s*-(?![>])|(?<![-=])-=?\s*[\w.()&]*\.len\(\)")
SLICE = re.compile(r"[\w)\]?]\[([^\[\]]*\.\.[^\[\]]*)\]")
STRING = re.compile(r'b?r#"(?:.|\n)*?"#|b?"(?:\\.|[^"\\])*"', re.S)
TESTS = re.compile(r"#\[cfg\(test\)\]\n(?:pub(?:\(\w+\))? )?mod \w+ \{")
KEYWORDS = re.compile(r"\b(?:in|return|match|if|else|let|mut|ref)\s*$")


def code(text):
    """A file without its tests, comments and texts, line by line as it was."""
    text = TESTS.split(text)[0]
    text = STRING.sub(lambda found: '""' + "\n" * found[0].count("\n"), text)
    return re.sub(r"//[^\n]*", "", text)


def slices(text):
    """The lines and texts of slices."""
    for number, line in enumerate(code(text).split("\n"), 1):
        for found in SLICE.finditer(line):
            before = line[: found.start() + 1]
            if found[1].strip() != ".." and not KEYWORDS.search(before):
                yield number, line.strip()


def lengths(text):
    """The lines and texts of subtractions with a length."""
    for number, line in enumerate(code(text).split("\n"), 1):
        if LENGTH.search(line):
            yield number, line.strip()


KINDS = [("slices by a range", slices, BOUNDS, "BOUNDS"), ("subtractions with a length", lengths, LENGTHS, "LENGTHS")]


def is_test(path):
    """Whether a file is compiled for tests only."""
    return path.name.endswith("tests.rs") or "tests" in path.parts or "sim" in path.parts or path.name in ("sim.rs", "bench.rs")


def places(crate, find):
    """The places in a crate."""
    for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        if not is_test(path):
            for number, line in find(path.read_text()):
                yield f"{path.relative_to(ROOT)}:{number}: {line}"


def check():
    """The problems."""
    for directory in sorted((ROOT / "crates").iterdir()):
        for what, find, bounds, name in KINDS:
            crate, found = directory.name, list(places(directory.name, find))
            bound = bounds.get(crate, 0)
            if len(found) > bound:
                yield f"{crate}: {len(found)} {what}, and {bound} are allowed:\n  " + "\n  ".join(found)
            elif len(found) < bound:
                print(f"{crate}: {len(found)} {what} are left; lower its bound of {bound} in {name} of tests/slices.py")


def self_check():
    """The rule finds what it is for."""
    cut = "fn f() {\n    encoded[start..end].to_vec()\n}\n"
    assert [line for _, line in slices(cut)] == ["encoded[start..end].to_vec()"]
    for length in ["end.len() - 2", "total - (text.len())", "left - tail.len() as u64", "self.bytes -= body.len();", "self.len() -1"]:
        assert list(lengths(length)), length
    assert not list(lengths("fn f() -> usize { a.len() }\nlet x = -1; // a.len() - 1\na.len().saturating_sub(b.len());\nmatch a.len() {\n 1 => b }"))
    assert not list(slices('// text[1..]\nlet a = &b[..];\nlet c = "x[1..2]";\nfor [a, ..] in x {}\nlet [first, ..] = y;\n'))


if __name__ == "__main__":
    self_check()
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            for _, find, _, _ in KINDS:
                print(*places(name.removeprefix("crates/").rstrip("/"), find), sep="\n")
    else:
        problems = list(check())
        print(*problems, sep="\n", end="\n" if problems else "")
        sys.exit(bool(problems))
