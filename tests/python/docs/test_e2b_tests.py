"""docs/reference/e2b-tests.md has the counts of the lists of E2B's tests that must pass, for each file, and no others."""

import re
from collections import Counter

from pages import ROOT

PAGE = ROOT / "docs" / "reference" / "e2b-tests.md"
LISTS = ROOT / "tests" / "e2b" / "passing"


def shown():
    """{suite: {file: (tests that pass, tests)}} of the page; the first part has the sum of each suite."""
    found = {}
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.M):
        rows = re.findall(r"^\| `?([^|`]+?)`? \| (\d+) \| (\d+) \|$", part, flags=re.M)
        found[part.splitlines()[0]] = {name: (int(passing), int(total)) for name, passing, total in rows}
    return found


def test_the_page_has_the_counts_of_the_lists():
    (sums, *suites) = shown().items()
    lists = {path.stem: Counter(line.split("::")[0] for line in path.read_text().splitlines()) for path in LISTS.iterdir()}
    assert {suite: {file: row[0] for file, row in rows.items() if row[0]} for suite, rows in suites} == lists
    assert sums[1] == {suite: tuple(map(sum, zip(*rows.values(), strict=True))) for suite, rows in suites}
    assert all(passing <= total for _, rows in suites for passing, total in rows.values())


def test_the_page_speaks_of_the_commits_that_are_run():
    text = (ROOT / "tests" / "e2b" / "run.py").read_text()
    commits = re.findall(r'"([0-9a-f]{40})"', text)
    assert commits and all(commit[:12] in PAGE.read_text() for commit in commits)
