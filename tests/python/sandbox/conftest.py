"""Gateways at every isolation level, with the same templates: `plain`, `pooled`, and `kept`, whose files are.

Containers need an engine: `HIMALIA_TEST_DOCKER_HOST` names its socket (`make test-docker` starts one and sets it), and
`HIMALIA_TEST_WITHOUT_GVISOR` says that it has no gVisor. Without an engine only the levels that need none are collected;
`make test` runs both.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from leftovers import sessions_of
from levels import ENGINE, LEVELS, USER, AsOrdinaryUser, AtLevel
from waiting import eventually

# What is not for an engine, or needs one; what stops and starts an engine of the tests' own.
collect_ignore = ["test_credential_owners.py"] if ENGINE else ["test_gateway_in_container.py", "test_kept_volumes.py", "test_images.py"]
# Programs of this machine run on the libraries of an image of the same Debian alone.
if ENGINE and "VERSION_CODENAME=bookworm" not in Path("/etc/os-release").read_text().splitlines():
    collect_ignore.append("test_credential_programs.py")
if not os.environ.get("HIMALIA_TEST_OWN_ENGINE"):
    collect_ignore.append("test_engine_restart.py")


@pytest.fixture(scope="session")
def ordinary_place(tmp_path_factory, kernel_python):
    """Programs and an environment that an ordinary user can read: those of root lie below its home."""
    place = Path(subprocess.run(["mktemp", "-d", "/tmp/himalia-user-XXXXXX"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    try:
        binaries = Path(os.environ["HIMALIA_BIN"]).parent
        (place / "bin").mkdir()
        for name in ("himalia", "himalia-shim", "himalia-jail"):
            shutil.copy(binaries / name, place / "bin" / name)
        subprocess.run(["/usr/bin/python3", "-m", "venv", str(place / "env")], check=True)
        version = "import sys; print('python%d.%d' % sys.version_info[:2])"
        name = subprocess.run([place / "env/bin/python", "-c", version], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        packages = Path(kernel_python).parents[1] / "lib" / name / "site-packages"
        shutil.rmtree(place / "env/lib" / name / "site-packages")
        # Tens of thousands of files, whose copying and removal is slow on a busy disk: hard links where that is possible.
        how = "-al" if packages.stat().st_dev == place.stat().st_dev else "-a"
        subprocess.run(["cp", how, str(packages), str(place / "env/lib" / name / "site-packages")], check=True)
        # Of the programs those that the tests look for, which name their interpreter.
        program = (Path(kernel_python).parent / "f2py").read_text().replace(str(Path(kernel_python).parent), str(place / "env/bin"))
        (place / "env/bin/f2py").write_text(program)
        (place / "env/bin/f2py").chmod(0o755)
        spec = place / "kernels" / "python3"
        spec.mkdir(parents=True)
        argv = f'["{place}/env/bin/python3", "-m", "himalia_kernel", "-f", "{{connection_file}}"]'
        spec.joinpath("kernel.json").write_text(f'{{"argv": {argv}, "display_name": "Python 3", "language": "python"}}')
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session", params=LEVELS)
def gateway(request, tmp_path_factory):
    """One gateway per level."""
    if "ordinary" in request.param:
        place = request.getfixturevalue("ordinary_place")
        directory = place / "state"
        directory.mkdir()
        os.chown(directory, USER, USER)
        own = AsOrdinaryUser(directory, request.param, place, env={"HOME": str(directory)})
    else:
        request.getfixturevalue("kernel_python")
        own = AtLevel(tmp_path_factory.mktemp("level"), request.param)
    yield own
    own.stop()


@pytest.fixture(autouse=True)
def nothing_is_left_on_the_gateway(request):
    """A test ends the sessions that it started; all else is looked for when the gateway has ended."""
    own = request.getfixturevalue("gateway") if "gateway" in request.fixturenames else None
    if not isinstance(own, AtLevel):
        yield
        return
    sessions = sessions_of(own)
    yield
    eventually(lambda: sessions_of(own) <= sessions, lambda: f"left alive: {sessions_of(own) - sessions}")


@pytest.fixture
def session(gateway):
    """A session of the plain template, ended afterwards."""
    made = gateway.session()
    yield made
    gateway.end(made["id"])
