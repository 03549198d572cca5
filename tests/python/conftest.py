"""Fixtures of all Python tests.

`HIMALIA_BIN` names the gateway's binary (default: target/release/himalia). The kernels' Python is the one that
`himalia env build` makes, or `HIMALIA_KERNEL_PYTHON`.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("HIMALIA_BIN", str(ROOT / "target" / "release" / "himalia"))


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
