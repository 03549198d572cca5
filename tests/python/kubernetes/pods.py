"""A gateway on this machine whose sandboxes are pods of a real cluster. `tests/kubernetes/run.sh` names the cluster."""

import json
import os
import subprocess
import uuid
from pathlib import Path

from servers import Himalia
from waiting import eventually

KUBECTL = os.environ.get("HIMALIA_TEST_KUBECTL", "kubectl")
NAMESPACE = "himalia-kernels"
KERNELSPEC = Path(__file__).resolve().parents[3] / "kernelspecs" / "python3"


def kubectl(*arguments, check=True):
    """What kubectl prints."""
    done = subprocess.run(
        [KUBECTL, "-n", NAMESPACE, *arguments], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def objects(kind, gateway):
    """All objects of a gateway, as the API server has them."""
    found = json.loads(kubectl("get", kind, "-l", f"himalia.internal/gateway={gateway}", "-o", "json"))
    return found["items"]


def toml(value):
    """A value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)


class Gateway(Himalia):
    """`himalia serve` with [kubernetes]."""

    isolation = ()

    def __init__(self, directory, *options, env=None, **tables):
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        # Tests on one cluster do not see each other's pods.
        self.name = "t" + uuid.uuid4().hex[:12]
        settings = {
            "namespace": NAMESPACE,
            "gateway": self.name,
            "kubeconfig": os.environ["KUBECONFIG"],
            "image": os.environ["HIMALIA_TEST_KERNEL_IMAGE"],
            "agent_image": os.environ["HIMALIA_TEST_AGENT_IMAGE"],
            "pull_policy": os.environ.get("HIMALIA_TEST_PULL_POLICY", "IfNotPresent"),
            **tables.pop("kubernetes", {}),
        }
        lines = ["[kubernetes]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
        lines += ["[defaults]", 'memory = "256MiB"', "cpu = 0.5", 'disk = "64MiB"', 'tmp = "32MiB"', 'shm = "16MiB"']
        for name, table in tables.items():
            lines += [f"[{name}]", *(f"{key} = {toml(value)}" for key, value in table.items())]
        self.config = directory / "himalia.toml"
        self.config.write_text("\n".join(lines) + "\n")
        specs = directory / "kernelspecs" / "python3"
        specs.mkdir(parents=True)
        (specs / "kernel.json").write_text((KERNELSPEC / "kernel.json").read_text())
        super().__init__(
            directory,
            *("--config", str(self.config)),
            *("--kernelspec-dir", str(specs.parent)),
            "--only-these-kernelspecs",
            *options,
            env=env,
        )

    def pods(self):
        """Its pods."""
        return objects("pods", self.name)

    def session(self, **body):
        """A new session; its id."""
        reply = self.http.post("v1/sessions", json={"template": "python3", **body})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    def submit(self, session, code):
        """Begins an execution; its id."""
        reply = self.http.post(f"v1/sessions/{session}/executions", json={"code": code, "background": True})
        assert reply.status_code in (200, 201, 202), reply.text
        return reply.json()["id"]

    def wait(self, execution, seconds=60):
        """The result of an execution when it has ended."""
        found = {}

        def ended():
            found.update(self.http.get(f"v1/executions/{execution}", params={"wait_s": 5}).json())
            return found["status"] not in ("pending", "queued", "running")

        eventually(ended, f"{execution} ends", seconds)
        return found

    def run(self, session, code, seconds=60):
        """The result of a cell."""
        return self.wait(self.submit(session, code), seconds)

    def of(self, session):
        """The session as the gateway shows it."""
        return self.http.get(f"v1/sessions/{session}").json()

    def stop(self):
        """Ends it with its kernels, and looks that no object is left."""
        super().stop()
        left = lambda: [o["metadata"]["name"] for kind in ("pods", "secrets", "pvc") for o in objects(kind, self.name)]
        eventually(lambda: not left(), f"nothing is left: {left()}", 60)
