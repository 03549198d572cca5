"""Packages that a session installs for itself, without a network."""

import base64
import io
import time
import zipfile

import pytest
from channels import Channels
from waiting import eventually

NAME = "himalia_probe"
pytestmark = pytest.mark.timeout(300)


def wheel():
    """The smallest wheel."""
    out, info = io.BytesIO(), f"{NAME}-1.0.dist-info"
    files = {
        f"{NAME}.py": "ANSWER = 42\n\n\ndef main():\n    print(ANSWER)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n",
        f"{info}/entry_points.txt": f"[console_scripts]\nhimalia-probe = {NAME}:main\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return out.getvalue()


def install(client):
    """Put the wheel into the session and install it, each in a cell of its own."""
    file = f"{NAME}-1.0-py3-none-any.whl"
    data = base64.b64encode(wheel()).decode()
    client.run(f"import base64; open('/session/{file}', 'wb').write(base64.b64decode('{data}'))")
    assert client.run(f"import {NAME}").content["ename"] == "ModuleNotFoundError"
    done = client.run(f"%pip install /session/{file}", 180)
    assert "Successfully installed" in done.text(), (done.text(), done.text("stderr"))
    assert "no network" not in done.text("stderr")


ANSWER = f"import {NAME}; print({NAME}.ANSWER, {NAME}.__file__)"
ANSWERED = f"42 /session/.packages/{NAME}.py\n"


@pytest.mark.parametrize("template", ["plain", "pooled"])
def test_what_is_installed_can_be_imported_at_once_in_branches_and_after_a_restart(gateway, template):
    if template == "pooled":
        pools = "v1/pools"
        eventually(lambda: any(pool["ready"] for pool in gateway.http.get(pools).json()["pools"]), "a pooled kernel", 120)
    made = gateway.session(template)["id"]
    with Channels(gateway, made) as client:
        install(client)
        assert client.run(ANSWER).text() == ANSWERED
        forked = gateway.http.post(f"v1/sessions/{made}/fork", json={"count": 1, "policy": "report"})
        branch = forked.json()["branches"][0]["session"]["id"]
        with Channels(gateway, branch) as own:
            assert own.run(ANSWER).text() == ANSWERED
        gateway.end(branch)
        assert gateway.http.post(f"api/kernels/{made}/restart").status_code == 200
        assert client.run(ANSWER, 120).text() == ANSWERED
    gateway.end(made)


def test_what_needs_the_network_fails_at_once_and_says_why(gateway, session):
    with Channels(gateway, session["id"]) as client:
        started = time.monotonic()
        failed = client.run("%pip install himalia-no-such-package", 60)
        took = time.monotonic() - started
        assert "No matching distribution" in failed.text() + failed.text("stderr"), failed
        assert "this session has no network" in failed.text("stderr"), failed.text("stderr")
        assert took < 30, took
        # Without the magic, pip itself names the reason.
        plain = client.run("!python -m pip install himalia-no-such-package 2>&1 || true", 60)
        shell = client.run("import subprocess, sys; print(subprocess.run([sys.executable, '-m', 'pip', 'install', 'himalia-no-such-package'], capture_output=True, text=True).stdout)", 60)
        assert "this-session-has-no-network" in plain.text() + shell.text(), (plain.text(), shell.text())
