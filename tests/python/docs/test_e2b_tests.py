"""Pages about other projects' tests have the counts of the lists of tests that must pass, for each file, and no others."""

import re
from collections import Counter

import pytest
from pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


def shown(page):
    """{suite: {file: (tests that pass, tests)}} of the page; the first part has the sum of each suite."""
    found = {}
    for part in re.split(r"^## ", page.read_text(), flags=re.M):
        rows = re.findall(r"^\| `?([^|`]+?)`? \| (\d+) \| (\d+) \|$", part, flags=re.M)
        found[part.splitlines()[0]] = {name: (int(passing), int(total)) for name, passing, total in rows}
    return found


@pytest.mark.parametrize("judge", ["e2b", "jupyter-server"])
def test_the_page_has_the_counts_of_the_lists(judge):
    (sums, *suites) = shown(REFERENCE / f"{judge}-tests.md").items()
    lists = {path.stem: Counter(line.split("::")[0] for line in path.read_text().splitlines()) for path in (ROOT / "tests" / judge / "passing").iterdir()}
    assert {suite: {file: row[0] for file, row in rows.items() if row[0]} for suite, rows in suites} == lists
    assert sums[1] == {suite: tuple(map(sum, zip(*rows.values(), strict=True))) for suite, rows in suites}
    assert all(passing <= total for _, rows in suites for passing, total in rows.values())


def test_the_page_speaks_of_the_commits_that_are_run():
    text = (ROOT / "tests" / "e2b" / "run.py").read_text()
    commits = re.findall(r'"([0-9a-f]{40})"', text)
    page = (REFERENCE / "e2b-tests.md").read_text()
    assert commits and all(commit[:12] in page for commit in commits)


def test_the_page_speaks_of_the_version_that_is_run():
    pins = (ROOT / "tests" / "jupyter-server" / "requirements.txt").read_text()
    version = re.search(r"^jupyter_server==(.+)$", pins, re.M)[1]
    assert f"jupyter-server/{version}/) {version} " in (REFERENCE / "jupyter-server-tests.md").read_text()
