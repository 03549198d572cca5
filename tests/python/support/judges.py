"""Tests of other projects, unmodified: lists of those that must pass, and a page with the counts.

A list has the ids of the tests of one suite that must pass. A test of a list that fails is an error. A test that passes and is in no list
is printed, and `--write` adds it. `--write` never removes a line from a list, and writes the page.
"""

import argparse
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

# Seconds for one test on a machine that does other things too.
LIMIT = 120
# A test that fails among others is tried again by itself: this often.
TRIES = 2


def pytest(python):
    """The command of a suite in Python, with the Python of its environment."""

    def command(tests, report, workers):
        options = ["-q", "-n", str(workers), "-p", "no:cacheprovider", f"--junitxml={report}", f"--timeout={LIMIT}", "-o", "junit_family=xunit1"]
        return [python, "-m", "pytest", *options, *tests]

    return command


@dataclass
class Suite:
    """A suite: `directory()`, which fetches it, and `tests(directory)` in it; `command(tests, report, workers)` runs some, and writes JUnit's XML."""

    directory: Callable
    tests: Callable
    command: Callable


@dataclass
class Judge:
    """Suites of one project, by name."""

    suites: dict
    passing: Path
    page: Path
    introduction: str
    logs: Path
    command: str

    def arguments(self, description, workers):
        """The command line."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("suites", nargs="*", choices=[*self.suites, []], help="default: all")
        parser.add_argument("--write", action="store_true", help="add tests that pass to the lists")
        parser.add_argument("--failures", action="store_true", help="show each test that fails")
        parser.add_argument("--workers", type=int, default=workers, help="tests at once")
        return parser.parse_args()

    def all(self, options, variables):
        """Run the suites; return whether all passed that must."""
        good, ran = True, {}
        for suite in options.suites or self.suites:
            outcomes = ran[suite] = self.outcomes(suite, variables, options.workers)
            good = self.compare(suite, outcomes, options.write) and good
            if options.failures:
                for name, result in sorted(outcomes.items()):
                    if result not in ("passed", "skipped"):
                        print(f"  {name}: {result}")
        if options.write:
            self.write_page(ran)
        return good

    def outcomes(self, suite, variables, workers):
        """The outcome of each test of a suite; those that must pass and did not run once more by themselves."""
        directory = self.suites[suite].directory()
        (self.logs / f"{suite}.log").unlink(missing_ok=True)
        found = self.run(suite, self.suites[suite].tests(directory), directory, variables, workers)
        for _ in range(TRIES):
            again = [name for name in self.listed(suite) if found.get(name, "passed") != "passed"]
            if not again:
                break
            found |= self.run(suite, again, directory, variables, 0)
        return found

    def run(self, suite, tests, directory, variables, workers):
        """Run tests of a suite; return the outcome of each: `passed`, `skipped`, or the reason of its failure."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            report = Path(scratch) / "report.xml"
            command = self.suites[suite].command(tests, report, workers)
            with (self.logs / f"{suite}.log").open("a") as log:
                subprocess.run(command, cwd=directory, env=os.environ | variables | {"LIMIT": str(LIMIT)}, stdout=log, stderr=log, check=False)
            found = {}
            for name, result in map(outcome, ElementTree.parse(report).iter("testcase")):
                # Of several with one name, a failure counts.
                if found.get(name, "passed") == "passed":
                    found[name] = result
            return found

    def listed(self, suite):
        """Ids of the tests that must pass."""
        path = self.passing / f"{suite}.txt"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def compare(self, suite, outcomes, write):
        """Print the result of a suite; return whether all passed that must."""
        passed = {name for name, result in outcomes.items() if result == "passed"}
        must = set(self.listed(suite))
        lost, new = sorted(must - passed), sorted(passed - must)
        print(f"{suite}: {len(passed)} of {len(outcomes)} pass, {len(must)} must", flush=True)
        for name in lost:
            print(f"  must pass: {name}: {outcomes.get(name, 'there is no such test')}")
        if write and new:
            self.passing.mkdir(exist_ok=True)
            (self.passing / f"{suite}.txt").write_text("".join(f"{name}\n" for name in sorted(must | passed)))
        for name in [] if write else new:
            print(f"  passes and is not listed (`{self.command} WRITE=1`): {name}")
        return not lost

    def totals(self):
        """Tests of each file by suite and file, as the page has them."""
        found, suite = {}, None
        for line in self.page.read_text().splitlines() if self.page.exists() else []:
            if line.startswith("## "):
                suite = line.removeprefix("## ")
            elif row := re.fullmatch(r"\| `(.+)` \| \d+ \| (\d+) \|", line):
                found.setdefault(suite, {})[row[1]] = int(row[2])
        return found

    def write_page(self, ran):
        """Write the page: of suites that did not run now, with the totals that it has."""
        known = self.totals()
        for suite, outcomes in ran.items():
            known[suite] = dict(Counter(name.split("::")[0] for name in outcomes))
        parts = [self.introduction, "\n| suite | pass | of |\n|---|---|---|\n"]
        for suite in self.suites:
            parts.append(f"| {suite} | {len(self.listed(suite))} | {sum(known.get(suite, {}).values())} |\n")
        for suite in self.suites:
            passing = Counter(name.split("::")[0] for name in self.listed(suite))
            parts.append(f"\n## {suite}\n\n| file | pass | of |\n|---|---|---|\n")
            for file, total in sorted(known.get(suite, {}).items()):
                parts.append(f"| `{file}` | {passing[file]} | {total} |\n")
        self.page.write_text("".join(parts))


def outcome(case):
    """Id of a test and its outcome."""
    found = {child.tag: child for child in case}
    file = case.get("file")
    # Tests of a package, by the module that runs them.
    if file.startswith(".."):
        file = f"{case.get('classname').split('.')[0]}.py"
    name = f"{file}::{case.get('name')}"
    for tag in ("failure", "error"):
        if tag in found:
            return name, (found[tag].get("message") or tag).strip().splitlines()[0][:200]
    return name, "skipped" if "skipped" in found else "passed"
