"""The gateway in a container, as Docker Compose starts it from docker/compose.yaml: its sandboxes stand beside it, and outlive it."""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import httpx
import pytest
from channels import Channels
from levels import ENGINE, ROOT
from servers import Server
from waiting import eventually

pytestmark = pytest.mark.timeout(300)


def docker(*arguments):
    """The engine's client; what it printed."""
    done = subprocess.run(["docker", "--host", ENGINE, *arguments], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


class Contained(Server):
    """A gateway in a container, on a port of loopback that is free."""

    def __init__(self, home):
        self.token = secrets.token_hex(16)
        self.project = home.name.lower()
        command = subprocess.run([ROOT / "tests/docker/engine.sh", "compose"], check=True, capture_output=True, text=True)
        self.compose_command = command.stdout.split()
        self.env = {
            **os.environ,
            "DOCKER_HOST": ENGINE,
            "DOCKER_SOCKET": ENGINE.removeprefix("unix://"),
            "HIMALIA_TOKEN": self.token,
            "HIMALIA_HOME": str(home),
            "HIMALIA_PORT": "0",
        }
        self.starts = 0
        self.up()

    def compose(self, *arguments):
        """`docker compose` on the file; what it printed."""
        command = [*self.compose_command, "--project-name", self.project, "--file", str(ROOT / "docker/compose.yaml"), *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self, fresh=False):
        """`up`, and the wait until the gateway has said once more that it is ready."""
        self.compose("up", "--detach", "--no-build", "--pull", "never")
        self.starts = 1 if fresh else self.starts + 1
        ready = re.compile(r"is ready at http://")
        eventually(lambda: len(ready.findall(self.compose("logs", "--no-color"))) == self.starts, "the gateway is ready", 60)
        self.url = f"http://{self.compose('port', 'gateway', '8888').strip()}/"
        self._open()


@pytest.fixture
def contained():
    """A gateway with a home that has the same path on both sides; nothing of it stays."""
    home = Path(tempfile.mkdtemp(prefix="hc", dir="/tmp"))
    own = None
    try:
        own = Contained(home)
        yield own
    finally:
        if own:
            own.compose("down")
        left = docker("ps", "--all", "--quiet", "--filter", f"volume={home}/bin/himalia-shim").split()
        if left:
            docker("rm", "--force", *left)
        shutil.rmtree(home)
    assert not left, "sandboxes that were ended are still there"


def test_sandboxes_stand_beside_the_gateway_and_outlive_it(contained):
    reply = contained.http.post("v1/sessions", json={"template": "python3", "isolation": "container"})
    assert reply.status_code == 201, reply.text
    session = reply.json()["id"]

    def taken_over():
        eventually(lambda: contained.http.get(f"v1/sessions/{session}").json()["state"] == "idle", "the kernel was taken over", 60)

    with Channels(contained, session) as client:
        look = "import os; kept = 41; print(os.getuid() > 0, os.path.exists('/var/run/docker.sock'), 'HIMALIA_TOKEN' in os.environ)"
        assert client.run(look).text() == "True False False\n"
    # As a crash would end it: it is killed, and a new one finds the kernel.
    contained.compose("kill", "--signal", "KILL")
    contained.up()
    taken_over()
    with Channels(contained, session) as client:
        assert client.run("kept += 1; print(kept)").text() == "42\n"
    # As an upgrade would: the container goes, with its network, and another one comes.
    contained.compose("down")
    contained.up(fresh=True)
    taken_over()
    with Channels(contained, session) as client:
        assert client.run("kept += 1; print(kept)").text() == "43\n"
    assert contained.http.delete(f"v1/sessions/{session}").status_code == 204


def test_the_viewer_is_in_the_image(contained):
    page = httpx.get(contained.url, headers={"Accept": "text/html"}, follow_redirects=True, trust_env=False)
    assert page.status_code == 200 and "without its viewer" not in page.text, page.text
    scripts = re.findall(r'src="([^"]+\.js)"', page.text)
    assert scripts, page.text
    for script in scripts:
        found = httpx.get(httpx.URL(str(page.url)).join(script), trust_env=False)
        assert found.status_code == 200 and "javascript" in found.headers["content-type"], (script, found)
