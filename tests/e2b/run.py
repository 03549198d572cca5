"""The tests of E2B's own clients, unmodified, against a gateway at the level `namespaces`: `make test-e2b`.

The suites are at pinned commits of their repositories. `tests/e2b/passing/` has the lists of tests that must pass: see `judges.py`.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python" / "support")]
from judges import Judge  # noqa: E402
from repositories import fetched  # noqa: E402
from servers import Himalia  # noqa: E402

TARGET = Path(os.environ.get("HIMALIA_TARGET", ROOT / "target"))
SUITES = TARGET / "e2b-suites"

# Repository, commit, the directory in it that the suite runs in.
E2B = (
    "https://github.com/e2b-dev/E2B",
    "b8029973aa7da5f741f7bb1a9f833b38a0885438",
    "packages/python-sdk",
)
INTERPRETER = (
    "https://github.com/e2b-dev/code-interpreter",
    "7df1757bfd5baa037f909ce97c2dbe014da973c0",
    "python",
)
INTRODUCTION = f"""# E2B's own tests

`make test-e2b` runs the tests of E2B's clients, unmodified, against a gateway at the level `namespaces`: `python-sdk` of
[E2B]({E2B[0]}) at revision `{E2B[1][:12]}`, and `python` of
[code-interpreter]({INTERPRETER[0]}) at revision `{INTERPRETER[1][:12]}`. A test that passes is in a list in
`tests/e2b/passing`, and must pass from then on. `make test-e2b WRITE=1` adds to these lists and writes this page. Many tests need no server.
The others that fail need a feature that [clients of E2B](../how-to/e2b.md) do not have here: pauses, snapshots, ports, builds of templates,
the internet, or a kernel of another language.
"""


def sdk():
    return fetched(SUITES, *E2B) / E2B[-1]


def code():
    return fetched(SUITES, *INTERPRETER) / INTERPRETER[-1]


JUDGE = Judge(
    suites={
        "python-sdk-sync": (sdk, ["tests/sync"]),
        "python-sdk-async": (sdk, ["tests/async"]),
        "python-sdk-git": (sdk, ["tests/shared/git"]),
        "code-interpreter-sync": (code, ["tests/sync", "tests/charts", "tests/images"]),
        "code-interpreter-async": (code, ["tests/async"]),
    },
    python=TARGET / "e2b-env" / "bin" / "python",
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
