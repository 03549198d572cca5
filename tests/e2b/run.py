"""The tests of E2B's own clients, unmodified, against a gateway at the level `namespaces`: `make test-e2b`.

The suites are at pinned commits of their repositories, or in packages (LangChain's tests of deepagents). `tests/e2b/passing/` has one list per suite: the ids of the tests that must
pass. A test of a list that fails is an error. A test that passes and is in no list is printed, and `--write` adds it. `--write` never
removes a line from a list, and writes docs/reference/e2b-tests.md.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python" / "support")]

TARGET = Path(os.environ.get("HIMALIA_TARGET", ROOT / "target"))
SUITES = TARGET / "e2b-suites"
PYTHON = TARGET / "e2b-env" / "bin" / "python"
PASSING = HERE / "passing"
PAGE = ROOT / "docs" / "reference" / "e2b-tests.md"
# Seconds for one test on a machine that does other things too; the suites' own limit is 30.
LIMIT = 120
# A test that fails among others is tried again by itself: this often.
TRIES = 2

# Repositories and commits.
E2B = (
    "https://github.com/e2b-dev/E2B",
    "b8029973aa7da5f741f7bb1a9f833b38a0885438",
)
INTERPRETER = (
    "https://github.com/e2b-dev/code-interpreter",
    "7df1757bfd5baa037f909ce97c2dbe014da973c0",
)
# Source, directory in it, and tests. A suite runs in its directory. `None`: a directory beside this file.
SUITE = {
    "python-sdk-sync": (E2B, "packages/python-sdk", ["tests/sync"]),
    "python-sdk-async": (E2B, "packages/python-sdk", ["tests/async"]),
    "python-sdk-git": (E2B, "packages/python-sdk", ["tests/shared/git"]),
    "code-interpreter-sync": (
        INTERPRETER,
        "python",
        ["tests/sync", "tests/charts", "tests/images"],
    ),
    "code-interpreter-async": (INTERPRETER, "python", ["tests/async"]),
    "js-sdk": (E2B, "packages/js-sdk", []),
    "code-interpreter-js": (INTERPRETER, "js", []),
    "deepagents": (None, "deepagents", []),
}
# The suites that run with vitest.
JAVASCRIPT = ("js-sdk", "code-interpreter-js")


INTRODUCTION = f"""# E2B's own tests

`make test-e2b` runs the tests of E2B's clients, unmodified, against a gateway at the level `namespaces`: `python-sdk` and `js-sdk` of
[E2B]({E2B[0]}) at revision `{E2B[1][:12]}`, and `python` and `js` of
[code-interpreter]({INTERPRETER[0]}) at revision `{INTERPRETER[1][:12]}`. The suite `deepagents` has
LangChain's standard tests for sandboxes of [deepagents](https://github.com/langchain-ai/deepagents), through E2B's client. A test that passes is in a list in
`tests/e2b/passing`, and must pass from then on. `make test-e2b WRITE=1` adds to these lists and writes this page. Many tests need no server.
Tests in JavaScript that bring a server of their own are left out.
The others that fail need a feature that [clients of E2B](../how-to/e2b.md) do not have here: pauses, snapshots, ports, builds of templates,
the internet, a second user, or a kernel of another language. The test of box plots needs matplotlib before 3.11, which removed the argument
`labels`.
"""


def fetched(source, directory):
    """The directory of a repository at a commit, fetched once; or one beside this file."""
    if source is None:
        return HERE / directory
    repository, commit = source
    place = SUITES / repository.removeprefix("https://github.com/").replace("/", "+")
    if not (place / directory).is_dir():
        place.mkdir(parents=True, exist_ok=True)
        for command in (
            ["git", "init", "-q"],
            ["git", "fetch", "-q", "--depth=1", repository, commit],
            [
                "git",
                "-c",
                "advice.detachedHead=false",
                "checkout",
                "-q",
                "FETCH_HEAD",
                "--",
                directory,
            ],
        ):
            subprocess.run(command, cwd=place, check=True)
    return place / directory


def run(suite, tests, directory, variables, workers):
    """Run tests of a suite; return what each did: `passed`, `skipped`, or the reason of its failure."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = (vitest if suite in JAVASCRIPT else pytest)(tests, report, workers)
        with (TARGET / f"e2b-{suite}.log").open("a") as log:
            subprocess.run(
                command,
                cwd=directory,
                env=os.environ | variables | {"LIMIT": str(LIMIT)},
                stdout=log,
                stderr=log,
                check=False,
            )
        cases = ElementTree.parse(report).iter("testcase")
        found = {}
        for name, result in map(outcome, cases):
            # Of several with one name, a failure counts.
            if found.get(name, "passed") == "passed":
                found[name] = result
        return found


def pytest(tests, report, workers):
    """The command for tests in Python."""
    return [
        str(PYTHON),
        *("-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"),
        *(f"--junitxml={report}", f"--timeout={LIMIT}", "-o", "junit_family=xunit1"),
        *tests,
    ]


def live(directory):
    """The files of tests in JavaScript that use a server. The others have one of their own, which these variables would lead away from."""
    files = sorted((directory / "tests").rglob("*.test.ts"))
    return [
        str(file.relative_to(directory))
        for file in files
        if "msw" not in file.read_text()
    ]


def vitest(tests, report, workers):
    """The command for tests in JavaScript, of which it runs whole files."""
    config = shutil.copy(HERE / "vitest.config.mjs", SUITES)
    return [
        *("npx", "vitest", "run", "--config", config),
        *(f"--maxWorkers={max(workers, 1)}", f"--outputFile.junit={report}"),
        *sorted({test.split("::")[0] for test in tests}),
    ]


def outcome(case):
    """Id of a test and what it did."""
    found = {child.tag: child for child in case}
    file = case.get("file")
    # Those of a package, by the module that runs them.
    if file.startswith(".."):
        file = f"{case.get('classname').split('.')[0]}.py"
    name = f"{file}::{case.get('name')}"
    for tag in ("failure", "error"):
        if tag in found:
            return name, (found[tag].get("message") or tag).strip().splitlines()[0][
                :200
            ]
    return name, "skipped" if "skipped" in found else "passed"


def all_of(suite, variables, workers):
    """What each test of a suite did; those that must pass and did not, once more by themselves."""
    source, directory, tests = SUITE[suite]
    directory = fetched(source, directory)
    if suite in JAVASCRIPT:
        tests = live(directory)
    (TARGET / f"e2b-{suite}.log").unlink(missing_ok=True)
    outcomes = run(suite, tests, directory, variables, workers)
    for _ in range(TRIES):
        again = [
            name for name in listed(suite) if outcomes.get(name, "passed") != "passed"
        ]
        if not again:
            break
        outcomes |= run(suite, again, directory, variables, 0)
    return outcomes


def listed(suite):
    """Ids of the tests that must pass."""
    path = PASSING / f"{suite}.txt"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def judge(suite, outcomes, write):
    """Print the result of a suite; return whether all passed that must."""
    passed = {name for name, result in outcomes.items() if result == "passed"}
    must = set(listed(suite))
    lost, new = sorted(must - passed), sorted(passed - must)
    print(f"{suite}: {len(passed)} of {len(outcomes)} pass, {len(must)} must")
    for name in lost:
        print(f"  must pass: {name}: {outcomes.get(name, 'there is no such test')}")
    if write and new:
        PASSING.mkdir(exist_ok=True)
        (PASSING / f"{suite}.txt").write_text(
            "".join(f"{name}\n" for name in sorted(must | passed))
        )
    for name in [] if write else new:
        print(f"  passes and is not listed (`make test-e2b WRITE=1`): {name}")
    return not lost


def totals():
    """Tests of each file by suite and file, as the page has them."""
    found, suite = {}, None
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        if line.startswith("## "):
            suite = line.removeprefix("## ")
        elif row := re.fullmatch(r"\| `(.+)` \| \d+ \| (\d+) \|", line):
            found.setdefault(suite, {})[row[1]] = int(row[2])
    return found


def write_page(ran):
    """Write the page: of suites that did not run now, with the totals that it has."""
    known = totals()
    for suite, outcomes in ran.items():
        known[suite] = dict(Counter(name.split("::")[0] for name in outcomes))
    parts = [INTRODUCTION, "\n| suite | pass | of |\n|---|---|---|\n"]
    for suite in SUITE:
        parts.append(
            f"| {suite} | {len(listed(suite))} | {sum(known.get(suite, {}).values())} |\n"
        )
    for suite in SUITE:
        passing = Counter(name.split("::")[0] for name in listed(suite))
        parts.append(f"\n## {suite}\n\n| file | pass | of |\n|---|---|---|\n")
        for file, total in sorted(known.get(suite, {}).items()):
            parts.append(f"| `{file}` | {passing[file]} | {total} |\n")
    PAGE.write_text("".join(parts))


def failures(suite, outcomes):
    """The tests that fail, with reasons, for a person."""
    for name, result in sorted(outcomes.items()):
        if result not in ("passed", "skipped"):
            print(f"  {name}: {result}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[*SUITE, []], help="default: all")
    parser.add_argument(
        "--write", action="store_true", help="add tests that pass to the lists"
    )
    parser.add_argument(
        "--failures", action="store_true", help="show each test that fails"
    )
    parser.add_argument("--workers", type=int, default=2, help="tests at once")
    options = parser.parse_args()
    from servers import Himalia

    Himalia.isolation = ("--isolation", "namespaces")
    with tempfile.TemporaryDirectory() as scratch:
        token = "e2b_" + os.urandom(20).hex()
        gateway = Himalia(Path(scratch), "--e2b", token=token)
        try:
            address = re.sub("/$", "", gateway.url) + "/e2b"
            variables = {
                "E2B_API_KEY": token,
                "E2B_API_URL": address,
                "E2B_SANDBOX_URL": address,
            }
            good, ran = True, {}
            for suite in options.suites or SUITE:
                outcomes = ran[suite] = all_of(suite, variables, options.workers)
                good = judge(suite, outcomes, options.write) and good
                if options.failures:
                    failures(suite, outcomes)
            if options.write:
                write_page(ran)
        finally:
            gateway.stop()
    sys.exit(not good)


if __name__ == "__main__":
    main()
