#!/usr/bin/env python3
"""Counts circles of files inside each crate: files of which each uses another, directly or through others.

`tests/circles.py` fails if a crate has a circle of more files than `MOST`.
`tests/circles.py CRATE...` lists the circles of crates, and for each file the files of the circle that it uses.

A file uses another by a path to an item that is defined there, in a `use` or in the code: `crate::…`, `self::…`, `super::…`, or a path that begins
with a module that the file declares or imports. A `pub use` is not a use: a path through it counts for the file that defines the item. Methods do
not count, as they have no path. Tests are left out.
"""

import re
import sys
from pathlib import Path

from slices import code, is_test

ROOT = Path(__file__).resolve().parents[1]

# The files of the largest circle that a crate may have.
MOST = 8

VISIBILITY = re.compile(r"\bpub\s*\([^)]*\)")
USE = re.compile(r"\b(pub\s+)?use\s+([^;]+);")
DECLARED = re.compile(r"^\s*(?:#\[[^\n]*\]\s*)*(?:pub\s+)?mod\s+(\w+)\s*;", re.M)
TEST_FILE = re.compile(r"#\[cfg\((?:test|all\(test[^\n]*|any\(test[^\n]*)\)\]\s*(?:#\[[^\n]*\]\s*)*(?:pub\s+)?mod\s+(\w+)\s*;")
DEFINED = re.compile(r"\b(?:fn|struct|enum|trait|type|const|static|union|macro_rules!)\s+(?:mut\s+)?(\w+)")
PATH = re.compile(r"(?<![\w:])(?:r#)?([a-z_]\w*)((?:\s*::\s*\w+)+)")


def leaves(tree):
    """The paths of a `use`, each with the name that it gives."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        path, _, name = tree.partition(" as ")
        parts = [part.strip() for part in path.split("::") if part.strip()]
        yield parts, (name.strip() or (parts[-1] if parts else ""))
        return
    prefix = [part.strip() for part in tree[:brace].split("::") if part.strip()]
    depth, start = 0, brace + 1
    for at in range(brace, len(tree)):
        letter = tree[at]
        depth += (letter == "{") - (letter == "}")
        if (letter == "," and depth == 1) or (letter == "}" and depth == 0):
            if tree[start:at].strip():
                for parts, name in leaves(tree[start:at]):
                    if parts == ["self"]:
                        yield prefix, (name if name != "self" else prefix[-1])
                    else:
                        yield prefix + parts, name
            start = at + 1


class File:
    """One file: its module, what it imports, what it passes on, and the paths in its code."""

    def __init__(self, module, text):
        self.module = module
        text = VISIBILITY.sub("pub", code(text))
        self.defined = set(DEFINED.findall(text))
        self.children = set(DECLARED.findall(text))
        self.imports, self.passed, self.paths = {}, [], []
        for found in USE.finditer(text):
            for parts, name in leaves(re.sub(r"\s+", " ", found[2])):
                if found[1]:
                    self.passed.append((parts, name))
                else:
                    self.paths.append(parts)
                self.imports.setdefault(name, parts)
        self.paths += [[found[1], *re.findall(r"\w+", found[2])] for found in PATH.finditer(USE.sub("", text))]


class Crate:
    """The files of one crate."""

    def __init__(self, files):
        self.files = files

    def absolute(self, file, parts):
        """A path from the root of the crate, or None if it leaves the crate."""
        if not parts:
            return None
        if parts[0] == "crate":
            return parts[1:]
        if parts[0] in ("self", "super"):
            base = list(file.module)
            while parts and parts[0] in ("self", "super"):
                if parts[0] == "super" and base:
                    base.pop()
                parts = parts[1:]
            return base + parts
        if parts[0] in file.children:
            return [*file.module, *parts]
        return None

    def resolve(self, file, parts, seen=()):
        """The module of the file that defines what a path names; None for a module, and for what is in no file here."""
        whole = self.absolute(file, parts)
        if whole is None:
            imported = file.imports.get(parts[0]) if len(parts) > 1 else None
            if not imported or imported[0] == parts[0]:
                return None
            whole = self.absolute(file, imported)
            if whole is None:
                return None
            whole = whole + parts[1:]
        for length in range(len(whole), -1, -1):
            module = tuple(whole[:length])
            if module in self.files:
                break
        rest = whole[length:]
        if not rest or module not in self.files:
            return None
        if rest == ["*"]:
            return module
        return self.home(module, rest, seen)

    def home(self, module, rest, seen):
        """The module that defines an item which this one has or passes on."""
        if (module, rest[0]) in seen:
            return module
        seen = (*seen, (module, rest[0]))
        file = self.files[module]
        for parts, name in file.passed:
            if name == rest[0] or name == "*":
                found = self.resolve(file, parts[:-1] + [rest[0]] if name == "*" else parts + rest[1:], seen)
                if name == rest[0]:
                    return found
                if found and found != module and rest[0] in self.files[found].defined:
                    return found
        return module

    def uses(self):
        """For each module, the other ones that it uses."""
        graph = {}
        for module, file in self.files.items():
            found = {self.resolve(file, parts) for parts in file.paths}
            graph[module] = {other for other in found if other is not None and other != module}
        return graph


def circles(graph):
    """The strongly connected parts of a graph that have more than one node, the largest first."""
    number, low, stack, on, parts = {}, {}, [], set(), []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        on.add(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            part = set()
            while True:
                other = stack.pop()
                on.discard(other)
                part.add(other)
                if other == node:
                    break
            parts.append(part)

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted((part for part in parts if len(part) > 1), key=len, reverse=True)


def of_texts(texts):
    """A crate of modules with their texts."""
    return Crate({module: File(module, text) for module, text in texts.items()})


def module_of(path, src):
    """The module that a file is."""
    parts = path.relative_to(src).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def of_crate(directory):
    """A crate on the disk, without its tests."""
    src = directory / "src"
    paths = [path for path in sorted(src.rglob("*.rs")) if not is_test(path) and "bin" not in path.relative_to(src).parts]
    # A program beside a library is another crate of one file.
    paths = [path for path in paths if path != src / "main.rs" or not (src / "lib.rs").exists()]
    texts = {module_of(path, src): path.read_text() for path in paths}
    for module, text in list(texts.items()):
        for name in TEST_FILE.findall(VISIBILITY.sub("pub", text)):
            tests = (*module, name)
            texts = {other: rest for other, rest in texts.items() if other[: len(tests)] != tests}
    return of_texts(texts)


def show(module):
    return "::".join(module) or "(root)"


def check():
    """The problems."""
    for directory in sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml")):
        name = directory.name
        found = circles(of_crate(directory).uses())
        size = len(found[0]) if found else 0
        if size > MOST:
            yield f"{name}: a circle of {size} files, and {MOST} are allowed (tests/circles.py {name} lists it): " + ", ".join(map(show, sorted(found[0])))


def self_check():
    """The rule finds what it is for."""

    def sizes(**texts):
        modules = {tuple(name.split("__")) if name != "root" else (): text for name, text in texts.items()}
        return [len(part) for part in circles(of_texts(modules).uses())]

    assert sizes(root="mod a;\nmod b;", a="use crate::b::B;", b="use super::a::A;") == [2]
    assert sizes(root="mod a;\nfn f() { a::g(); }", a="use crate::f;") == [2]
    assert sizes(root="mod a;\nmod b;", a="use crate::b;\nfn f() { b::g(); }", b="pub(in crate::a) fn g() {}\nfn h() { crate::a::f(); }") == [2]
    # What is passed on counts for the file that defines it.
    assert sizes(root="mod a;\nmod b;\npub use a::A;", a="pub struct A;", b="use crate::A;\nfn f() { crate::A::new(); }") == []
    assert sizes(root="mod a;\nmod b;\npub use a::*;", a="pub struct A;\nfn f() { crate::b::g(); }", b="use crate::{A};") == [2]
    # Tests and texts do not count.
    assert sizes(root="mod a;\nmod b;", a="use crate::b::B;", b='// crate::a::A\nconst X: &str = "crate::a::A";\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n') == []


if __name__ == "__main__":
    self_check()
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            graph = of_crate(ROOT / "crates" / name.removeprefix("crates/").rstrip("/")).uses()
            for part in circles(graph):
                print(f"{name}: {len(part)} files")
                for module in sorted(part):
                    print(f"  {show(module)} -> " + ", ".join(show(other) for other in sorted(graph[module] & part)))
    else:
        problems = list(check())
        print(*problems, sep="\n", end="\n" if problems else "")
        sys.exit(bool(problems))
