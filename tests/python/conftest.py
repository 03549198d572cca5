"""Fixtures of all Python tests.

`HIMALIA_BIN` names the gateway's binary (default: target/test-programs/himalia). The kernels' Python is the one that
`himalia env build` makes, or `HIMALIA_KERNEL_PYTHON`.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("HIMALIA_BIN", str(ROOT / "target" / "test-programs" / "himalia"))


# Every reason for which a test may be skipped. Any other skip fails the run.
SKIPS = (
    "maps another user into the namespaces",  # as an ordinary user; CI is root
    "files are volumes of the engine, whose size is not watched",  # in containers, where the limit is the engine's
)


def pytest_terminal_summary(terminalreporter):
    """Names the skipped tests that are not allowed."""
    for report in _skipped(terminalreporter):
        terminalreporter.write_line(f"SKIPPED WITHOUT AN ALLOWED REASON {report.nodeid}: {report.longrepr[2]}", red=True)


def pytest_sessionfinish(session, exitstatus):
    """A skip that is not allowed is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and exitstatus == pytest.ExitCode.OK and _skipped(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped(reporter):
    reports = [report for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)]
    return [report for report in reports if re.sub("^Skipped: ", "", report.longrepr[2]) not in SKIPS]


@pytest.fixture(scope="session")
def kernel_python():
    """The interpreter of the kernels' environment."""
    named = os.environ.get("HIMALIA_KERNEL_PYTHON")
    if named:
        return named
    built = subprocess.run(
        [os.environ["HIMALIA_BIN"], "env", "build"], check=True, stdout=subprocess.PIPE, text=True, timeout=600
    )
    return built.stdout.splitlines()[-1]
