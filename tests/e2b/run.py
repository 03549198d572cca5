"""The tests of E2B's own clients, unmodified, against a gateway at the level `namespaces`: `make test-e2b`.

The suites are at pinned commits of their repositories, or in packages (LangChain's tests of deepagents). `tests/e2b/passing/` has the lists of tests that must pass: see `judges.py`.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python" / "support")]
from judges import Judge, Suite, pytest  # noqa: E402
from repositories import fetched  # noqa: E402
from servers import Himalia  # noqa: E402

TARGET = Path(os.environ.get("HIMALIA_TARGET", ROOT / "target"))
SUITES = TARGET / "e2b-suites"

# Repositories and commits.
E2B = ("https://github.com/e2b-dev/E2B", "b8029973aa7da5f741f7bb1a9f833b38a0885438")
INTERPRETER = ("https://github.com/e2b-dev/code-interpreter", "7df1757bfd5baa037f909ce97c2dbe014da973c0")
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


def python(repository, directory, *tests):
    """A suite in Python."""
    return Suite(lambda: fetched(SUITES, *repository, directory) / directory, lambda _: tests, PYTEST)


def javascript(repository, directory):
    """A suite in JavaScript: the files that use a server. The others have one of their own, which these variables would lead away from."""

    def tests(place):
        files = sorted((place / "tests").rglob("*.test.ts"))
        return [str(file.relative_to(place)) for file in files if "msw" not in file.read_text()]

    return Suite(lambda: fetched(SUITES, *repository, directory) / directory, tests, vitest)


def vitest(tests, report, workers):
    """The command of a suite in JavaScript, of which it runs whole files."""
    config = shutil.copy(HERE / "vitest.config.mjs", SUITES)
    files = sorted({test.split("::")[0] for test in tests})
    return ["npx", "vitest", "run", "--config", config, f"--maxWorkers={max(workers, 1)}", f"--outputFile.junit={report}", *files]


PYTEST = pytest(TARGET / "e2b-env" / "bin" / "python")
JUDGE = Judge(
    suites={
        "python-sdk-sync": python(E2B, "packages/python-sdk", "tests/sync"),
        "python-sdk-async": python(E2B, "packages/python-sdk", "tests/async"),
        "python-sdk-git": python(E2B, "packages/python-sdk", "tests/shared/git"),
        "code-interpreter-sync": python(INTERPRETER, "python", "tests/sync", "tests/charts", "tests/images"),
        "code-interpreter-async": python(INTERPRETER, "python", "tests/async"),
        "js-sdk": javascript(E2B, "packages/js-sdk"),
        "code-interpreter-js": javascript(INTERPRETER, "js"),
        # In a package: the directory has what chooses them.
        "deepagents": Suite(lambda: HERE / "deepagents", lambda _: [], PYTEST),
    },
    passing=HERE / "passing",
    page=ROOT / "docs" / "reference" / "e2b-tests.md",
    introduction=INTRODUCTION,
    logs=TARGET / "e2b-logs",
    command="make test-e2b",
)


def main():
    options = JUDGE.arguments(__doc__, workers=2)
    Himalia.isolation = ("--isolation", "namespaces")
    with tempfile.TemporaryDirectory() as scratch:
        token = "e2b_" + os.urandom(20).hex()
        gateway = Himalia(Path(scratch), "--e2b", token=token)
        try:
            address = re.sub("/$", "", gateway.url) + "/e2b"
            variables = {"E2B_API_KEY": token, "E2B_API_URL": address, "E2B_SANDBOX_URL": address}
            good = JUDGE.all(options, variables)
        finally:
            gateway.stop()
    sys.exit(not good)


if __name__ == "__main__":
    main()
