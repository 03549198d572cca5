"""The wheel, installed into an empty environment: its programs find each other, and its client finds the gateway that they start."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from waiting import eventually

SOURCES = Path(__file__).parents[3] / "clients" / "python"


@pytest.fixture
def programs(tmp_path):
    """The programs under test in one directory."""
    beside = Path(os.environ["HIMALIA_BIN"]).parent
    directory = tmp_path / "programs"
    directory.mkdir()
    for name in ("himalia", "himalia-shim", "himalia-jail"):
        shutil.copy(beside / name, directory)
    return directory


def test_the_wheel_alone_makes_a_plot(programs, tmp_path, kernel_python):
    out = tmp_path / "wheels"
    subprocess.run([sys.executable, SOURCES / "wheel.py", "--programs", programs, "--out", out], check=True, timeout=100)
    [wheel] = out.iterdir()
    assert re.fullmatch(r"himalia-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl", wheel.name)
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    subprocess.run([binaries / "pip", "install", "--quiet", wheel], check=True, timeout=200)
    data = tmp_path / "data"
    env = {"HOME": os.environ["HOME"], "PATH": f"{binaries}:/usr/bin:/bin", "HIMALIA_DATA_DIR": str(data)}
    code = (
        "from himalia import Gateway\n"
        "with Gateway() as gateway, gateway.session() as session:\n"
        "    result = session.execute('import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()', check=True)\n"
        "    result.images[0].save('plot.png')\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as file:
        gateway = subprocess.Popen([binaries / "himalia", "up", "--listen", "127.0.0.1:0"], env=env, stdout=file, stderr=file, start_new_session=True)
    try:
        eventually(lambda: "is ready at" in log.read_text(), lambda: log.read_text(), 100)
        subprocess.run([binaries / "python", "-c", code], env=env, cwd=tmp_path, check=True, timeout=100)
    finally:
        gateway.send_signal(2)
        gateway.wait(60)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_the_versions_agree():
    """Of the wheel and of the programs in it."""
    shown = subprocess.run([os.environ["HIMALIA_BIN"], "--version"], check=True, capture_output=True, text=True).stdout
    assert f'version = "{shown.split()[1]}"' in (SOURCES / "pyproject.toml").read_text()
