"""The levels that there are to test, and gateways whose templates are at one of them."""

import os
import subprocess
from pathlib import Path

from servers import Himalia

ROOT = Path(__file__).resolve().parents[3]
ENGINE = os.environ.get("HIMALIA_TEST_DOCKER_HOST")
IMAGE = os.environ.get("HIMALIA_TEST_IMAGE", "himalia-kernel")
# An ordinary user that nothing else on the machine is.
USER = 64_123

LOCAL = ("namespaces", "namespaces, ordinary user")
CONTAINERS = ("container",) if os.environ.get("HIMALIA_TEST_WITHOUT_GVISOR") else ("container", "gvisor")
LEVELS = CONTAINERS if ENGINE else LOCAL

TEMPLATE = """
[templates.{name}]
kernelspec = "python3"
{place}memory = "512MiB"
pids = 100
disk = "{disk}"
tmp = "32MiB"
shm = "16MiB"
preload = ["numpy", "pandas"]
{more}
"""


def place(level):
    """The keys of a template that say where its kernels run."""
    isolation = level.partition(",")[0]
    engine = isolation in CONTAINERS
    more = f'image = "{IMAGE}"\nruntime = "{"runsc" if isolation == "gvisor" else "runc"}"\n' if engine else ""
    return f'provisioner = "{"docker" if engine else "local"}"\nisolation = "{isolation}"\n{more}'


def config(level, pool=1, keeps=False):
    """The configuration file of a gateway at one level. `keeps`: it has the logs of ended sessions."""
    engine = level in CONTAINERS
    # Tests look for what a session leaves behind.
    text = "" if keeps else "retention = 0\n"
    text += f'[docker]\nhost = "{ENGINE}"\nimage = "{IMAGE}"\n[docker.runtimes]\nrunc = "container"\nrunsc = "gvisor"\n' if engine else ""
    templates = (("plain", "64MiB", ""), ("pooled", "64MiB", f"[templates.pooled.pool]\nsize = {pool}\nmax = {pool}"), ("kept", "24MiB", 'files = "session"'))
    for name, disk, extra in templates:
        text += TEMPLATE.format(name=name, place=place(level), disk=disk, more=extra)
    return text


class AtLevel(Himalia):
    """A gateway whose templates are at one level."""

    isolation = ()

    def __init__(self, directory, level, *options, pool=1, keeps=False, extra="", **more):
        """`extra` follows the configuration of the level."""
        self.level = level
        Path(directory).mkdir(parents=True, exist_ok=True)
        file = Path(directory) / "himalia.toml"
        file.write_text(config(level, pool, keeps) + extra)
        super().__init__(directory, "--config", str(file), *options, **more)

    def session(self, template="plain", **body):
        """POST /v1/sessions; the session."""
        reply = self.http.post("v1/sessions", json={"template": template, **body})
        assert reply.status_code == 201, reply.text
        return reply.json()

    def show(self, session):
        """GET of one session."""
        reply = self.http.get(f"v1/sessions/{session}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def end(self, session):
        """DELETE of one session."""
        assert self.http.delete(f"v1/sessions/{session}").status_code in (204, 404)


class AsOrdinaryUser(AtLevel):
    """The same, started by a user without any privilege."""

    def __init__(self, directory, level, place, *options, **more):
        self.place = place
        super().__init__(directory, level, "--kernelspec-dir", str(place / "kernels"), "--only-these-kernelspecs", *options, **more)

    def start(self):
        """What the test wrote as root belongs to that user."""
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(self.directory)], check=True)
        super().start()

    def command(self):
        """Through setpriv: another user, no groups, no capabilities."""
        user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs"]
        return [*user, str(self.place / "bin" / "himalia")]
