"""The gateway in a container, as docker/compose.yaml describes it: its sandboxes stand beside it, and outlive it.

The file is read here and handed to `docker run`, so that no Compose is needed; only the address differs, since the tests'
engine has no networks.
"""

import re
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml
from channels import Channels
from levels import ENGINE, ROOT
from servers import Server
from waiting import eventually

COMPOSE = ROOT / "docker" / "compose.yaml"
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
UNDERSTOOD = {"image", "command", "environment", "ports", "volumes", "read_only", "tmpfs", "cap_drop", "security_opt", "restart"}


def docker(*arguments, **options):
    """The engine's client; what it printed."""
    done = subprocess.run(["docker", "--host", ENGINE, *arguments], capture_output=True, text=True, timeout=110, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def service(variables):
    """The one service of the file, with its variables as Compose would set them."""

    def value(found):
        name, kind, text = found.groups()
        if kind == "?":
            return variables[name]
        return variables.get(name) or text or ""

    services = yaml.safe_load(VARIABLE.sub(value, COMPOSE.read_text()))["services"]
    (only,) = services.values()
    assert set(only) <= UNDERSTOOD, "this test does not know what that means for `docker run`"
    return only


def options(service):
    """Arguments of `docker run` that mean the same."""
    many = [("--env", f"{name}={value}") for name, value in service["environment"].items()]
    for option, key in (("--volume", "volumes"), ("--tmpfs", "tmpfs"), ("--cap-drop", "cap_drop"), ("--security-opt", "security_opt")):
        many += [(option, value) for value in service[key]]
    listen = service["command"].index("--listen") + 1
    command = [*service["command"][:listen], "127.0.0.1:0", *service["command"][listen + 1 :]]
    one = ["--detach", "--network", "host", "--restart", service["restart"], *(["--read-only"] if service["read_only"] else [])]
    return [*one, *(part for pair in many for part in pair), service["image"], *command]


class Contained(Server):
    """A gateway in a container."""

    def __init__(self, home):
        self.token = secrets.token_hex(16)
        variables = {"HIMALIA_TOKEN": self.token, "HIMALIA_HOME": str(home), "DOCKER_SOCKET": ENGINE.removeprefix("unix://")}
        self.name = docker("run", *options(service(variables))).split()[-1]
        self.ready(1)

    def ready(self, starts):
        """Wait until it has said so as often as it was started."""

        def said():
            found = re.findall(r"is ready at (http://[^/\s]+/)", docker("logs", self.name))
            return found[-1] if len(found) == starts else None

        self.url = eventually(said, "the gateway is ready", 60)
        self._open()

    def remove(self):
        """The gateway's container; its sandboxes stay."""
        docker("rm", "--force", self.name)


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
            own.remove()
        left = docker("ps", "--all", "--quiet", "--filter", f"volume={home}/bin/himalia-shim").split()
        if left:
            docker("rm", "--force", *left)
        shutil.rmtree(home)
    assert not left, "sandboxes that were ended are still there"


def test_sandboxes_stand_beside_the_gateway_and_outlive_it(contained):
    reply = contained.http.post("v1/sessions", json={"template": "python3", "isolation": "container"})
    assert reply.status_code == 201, reply.text
    session = reply.json()["id"]
    with Channels(contained, session) as client:
        look = "import os; kept = 41; print(os.getuid(), os.path.exists('/var/run/docker.sock'), 'HIMALIA_TOKEN' in os.environ)"
        assert client.run(look).text() == "1000 False False\n"
    # As an upgrade would end it, or a crash: it is killed, and a new one finds the kernel.
    docker("kill", "--signal", "KILL", contained.name)
    docker("start", contained.name)
    contained.ready(2)
    eventually(lambda: contained.http.get(f"v1/sessions/{session}").json()["state"] == "idle", "the kernel was taken over", 60)
    with Channels(contained, session) as client:
        assert client.run("print(kept + 1)").text() == "42\n"
    assert contained.http.delete(f"v1/sessions/{session}").status_code == 204
