"""docs/reference/works-with.md has one row for each program that `make test-works-with` runs, with the version that is pinned."""

import importlib.util
import re

from pages import ROOT

PROGRAMS = ROOT / "tests" / "works-with"


def runner():
    """The module that runs the programs."""
    spec = importlib.util.spec_from_file_location("works_with", PROGRAMS / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins():
    """Versions by package."""
    text = "".join(path.read_text() for path in PROGRAMS.glob("requirements-*.txt"))
    found = dict(re.findall(r"^([\w-]+)(?:\[.*\])?==(.+)$", text, re.M))
    return found | dict(re.findall(r'"(\S+)": "([\d.]+)"', (PROGRAMS / "js" / "package.json").read_text()))


def test_the_page_has_a_row_for_each_program_and_no_other():
    run = runner()
    programs = run.BY_E2B + run.BY_TOKEN
    rows = re.findall(r"^\| (?!program|-)(.+?) \| (.+?) \| (.*?) \| (.*?) \| (.*) \|$", run.PAGE.read_text(), re.M)
    assert [(title, done, result, missing.strip()) for title, _, done, result, missing in rows] == [
        (one.title, one.done, one.result, one.missing) for one in programs
    ]
    assert sorted(one.file for one in programs) == sorted(path.name for path in (PROGRAMS / "programs").iterdir() if path.is_file())
    for one, (title, version, *_) in zip(programs, rows, strict=True):
        if not version.startswith("`"):
            assert version == pins()[one.package], title
