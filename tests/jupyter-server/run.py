"""The tests of jupyter_server about kernels, kernelspecs and sessions, unmodified, against a gateway: `make test-jupyter-server`.

They are in the source package of the pinned version. `passing/` has the list of tests that must pass: see `judges.py`.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python" / "support")]
from judges import Judge, Suite, pytest  # noqa: E402
from servers import Himalia  # noqa: E402

TARGET = Path(os.environ.get("HIMALIA_TARGET", ROOT / "target"))
PYTHON = TARGET / "jupyter-server-env" / "bin" / "python"
VERSION = re.search(r"^jupyter_server==(.+)$", (HERE / "requirements.txt").read_text(), re.M)[1]
INTRODUCTION = f"""# Tests of jupyter_server

`make test-jupyter-server` runs the tests of [jupyter_server](https://pypi.org/project/jupyter-server/{VERSION}/) {VERSION} about kernels,
kernelspecs and sessions, unmodified, against a gateway at the level `namespaces`. A test that passes is in a list in
`tests/jupyter-server/passing`, and must pass from then on. `make test-jupyter-server WRITE=1` adds to this list and writes this page.

Two of the tests that pass return at once, because they are for kernels that start after the answer (`use_pending_kernels`). Nine of the tests that
fail need `/api/resolvePath`, which the gateway does not have. Two change objects inside the process of jupyter_server, which no other
server can pass.
"""


def fetched():
    """The source package of the version, unpacked once, with the fixtures that replace its server."""
    place = TARGET / "jupyter-server-suite" / f"jupyter_server-{VERSION}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory() as scratch:
            command = [PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=jupyter_server", "--dest", scratch]
            subprocess.run([*command, f"jupyter_server=={VERSION}"], check=True)
            with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as package:
                package.extractall(place.parent, filter="data")
    shutil.copy(HERE / "conftest.py", place / "tests" / "services")
    return place


TESTS = [f"tests/services/{name}.py" for name in ("kernels/test_api", "kernels/test_execution_state", "kernelspecs/test_api", "sessions/test_api")]
JUDGE = Judge(
    suites={"jupyter_server": Suite(fetched, lambda _: TESTS, pytest(PYTHON))},
    passing=HERE / "passing",
    page=ROOT / "docs" / "reference" / "jupyter-server-tests.md",
    introduction=INTRODUCTION,
    logs=TARGET / "jupyter-server-logs",
    command="make test-jupyter-server",
)


def main():
    # They list all kernels and sessions: one test at a time.
    options = JUDGE.arguments(__doc__, workers=0)
    Himalia.isolation = ("--isolation", "namespaces")
    with tempfile.TemporaryDirectory() as scratch:
        specs = Path(scratch) / "specs"
        gateway = Himalia(Path(scratch) / "gateway", env={"JUPYTER_PATH": str(specs)})
        try:
            variables = {"JUDGED_URL": gateway.url, "JUDGED_TOKEN": gateway.token, "JUDGED_SPECS": str(specs)}
            good = JUDGE.all(options, variables)
        finally:
            gateway.stop()
    sys.exit(not good)


if __name__ == "__main__":
    main()
