"""Replicas of the gateway as pods, from the manifests of docker/kubernetes/postgres-s3 or from the chart in packaging/chart."""

import json
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import httpx
import yaml
from pods import KUBECTL
from postgres import Postgres
from s3 import S3
from waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
OVERLAY = ROOT / "docker" / "kubernetes" / "postgres-s3"
CHART = ROOT / "packaging" / "chart" / "himalia"
HELM = os.environ.get("HIMALIA_TEST_HELM", "helm")
RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
# Settings of the tests, behind those of the manifests' file.
POOL = '\n[templates.warm]\nkernelspec = "python3"\n[templates.warm.pool]\nsize = 2\nmax = 2\n'


def printed(*command, stdin=None, check=True):
    """What a command prints."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=240, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def kubectl(*arguments, **options):
    """What kubectl prints."""
    return printed(KUBECTL, *arguments, **options)


def api_server():
    """Variables that lead to the API server: no node has a proxy of services."""
    if not (server := os.environ.get("HIMALIA_TEST_API_SERVER")):
        return []
    host, port = server.split(":")
    return [{"name": "KUBERNETES_SERVICE_HOST", "value": host}, {"name": "KUBERNETES_SERVICE_PORT", "value": port}]


def rendered():
    """The objects of `kubectl apply -k`."""
    return [one for one in yaml.safe_load_all(kubectl("kustomize", str(OVERLAY))) if one]


def private_key():
    """A key as docs/operate/kubernetes.md makes it."""
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class ReplicaPods:
    """Three replicas with a Postgres server and an S3 server of this machine. `stop` removes all of it."""

    namespace = "himalia"
    kernels = "himalia-kernels"
    replicas = 3

    def __init__(self):
        self.token = secrets.token_hex(16)
        host = os.environ["HIMALIA_TEST_HOST"]
        self.postgres = Postgres(host, network="0.0.0.0/0")
        self.s3 = S3(host)
        self.url = self.postgres.database() + "?sslmode=disable"
        self.apply(
            self.secret("himalia-token", {"token": self.token}),
            self.secret("himalia-keys", {"authority.pem": private_key(), "replicas.pem": private_key(), "credentials.key": secrets.token_hex(32)}),
            self.secret("himalia-store", {"store": self.url, "object-store": S3.url}),
            self.secret("himalia-object-store", self.s3.environment),
        )
        try:
            self.install()
            eventually(lambda: len(self.ready()) == self.replicas, self.said, 120)
        except BaseException:
            self.stop()
            raise

    def install(self):
        """`kubectl apply -k`, with what differs on the tests' nodes."""
        served = kubectl("api-versions").split()
        # An old cluster has no disruption budgets.
        self.apply(*(self.fitted(one) for one in rendered() if one["apiVersion"] in served))

    @staticmethod
    def config(text):
        """The settings of the manifests, with the images of the tests, and limits that fit the nodes."""
        for name, image in (("himalia-kernel", "HIMALIA_TEST_KERNEL_IMAGE"), ("himalia-agent", "HIMALIA_TEST_AGENT_IMAGE")):
            assert f'"{name}"' in text
            text = text.replace(f'"{name}"', f'"{os.environ[image]}"')
        pull = f'pull_policy = "{os.environ.get("HIMALIA_TEST_PULL_POLICY", "IfNotPresent")}"'
        text = text.replace("[defaults]", pull + "\n\n[defaults]").replace('"2GiB"', '"200MiB"\ndisk = "64MiB"\ntmp = "32MiB"\nshm = "16MiB"').replace("cpu = 1", "cpu = 0.2")
        return text + POOL

    @classmethod
    def fitted(cls, one):
        """An object with what differs on the tests' nodes."""
        if one["kind"] == "ConfigMap":
            one["data"]["himalia.toml"] = cls.config(one["data"]["himalia.toml"])
        if one["kind"] != "StatefulSet":
            return one
        spec = one["spec"]["template"]["spec"]
        container = spec["containers"][0]
        container["image"] = os.environ["HIMALIA_TEST_GATEWAY_IMAGE"]
        container["imagePullPolicy"] = os.environ.get("HIMALIA_TEST_PULL_POLICY", "IfNotPresent")
        container["resources"] = RESOURCES
        container["env"] += api_server()
        # What ends is to end within the time of a test.
        spec["terminationGracePeriodSeconds"] = 15
        return one

    @classmethod
    def secret(cls, name, data):
        """A secret of the gateway's namespace."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": cls.namespace}, "stringData": data}

    @staticmethod
    def apply(*objects):
        """Makes objects."""
        kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def pods(self):
        """The replicas, by name."""
        found = json.loads(kubectl("-n", self.namespace, "get", "pods", "-l", "app.kubernetes.io/name=himalia", "-o", "json"))
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    def ready(self):
        """The addresses of those that are ready, by name."""

        def is_ready(pod):
            conditions = pod["status"].get("conditions", [])
            gone = "deletionTimestamp" in pod["metadata"]
            return not gone and any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

        return {name: pod["status"]["podIP"] for name, pod in self.pods().items() if is_ready(pod)}

    def client(self, name):
        """A client of one replica."""
        url = f"http://{self.ready()[name]}:8888"
        return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60, trust_env=False)

    def owner(self, session):
        """The replica that has a session."""
        rows = self.postgres.sql(self.url, f"SELECT replica FROM himalia.kernels WHERE id = '{session}'")
        return rows[0] if rows else None

    def sandboxes(self):
        """The pods of sandboxes, with the replicas that made them."""
        found = json.loads(kubectl("-n", self.kernels, "get", "pods", "-l", "himalia.internal/gateway=himalia", "-o", "json"))
        return {pod["metadata"]["name"]: pod["metadata"]["annotations"]["himalia.internal/replica"] for pod in found["items"]}

    def kill(self, name):
        """kill -9 of a replica, and its pod is gone, as after the loss of a machine. If it is to be there, another pod of its name is started."""
        processes = self.processes(name)
        assert processes, f"{name} runs on no node of this machine"
        kubectl("-n", self.namespace, "delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
        for process in processes:
            os.kill(process, signal.SIGKILL)

    def processes(self, name):
        """The processes of a replica: nodes are on this machine."""
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                variables = environment.read_bytes().split(b"\0")
            except OSError:
                continue
            if {f"HIMALIA_REPLICA={name}".encode(), f"HIMALIA_STORE={self.url}".encode()} <= set(variables):
                found.append(int(environment.parent.name))
        return found

    def scale(self, count):
        """As many replicas from now on."""
        kubectl("-n", self.namespace, "scale", "statefulset/himalia", f"--replicas={count}")

    def said(self):
        """Why replicas are not ready."""
        logs = [kubectl("-n", self.namespace, "logs", name, "--tail=5", check=False) for name in self.pods()]
        return "replicas are not ready: " + kubectl("-n", self.namespace, "get", "pods", "-o", "wide") + "\n".join(logs)

    def stop(self):
        """Removes the replicas, and what they have made."""
        kubectl("-n", self.namespace, "delete", "statefulset,secret,configmap,service", "--all", "--wait=false")
        eventually(lambda: not self.pods(), "the replicas end", 60)
        for kind in ("pods", "secrets", "pvc"):
            kubectl("-n", self.kernels, "delete", kind, "-l", "himalia.internal/gateway=himalia", "--wait=false", "--grace-period=1")
        self.s3.stop()
        self.postgres.stop()


class ChartPods(ReplicaPods):
    """One replica, installed by Helm beside those of the manifests. `stop` uninstalls it."""

    namespace = "himalia-chart"
    kernels = "himalia-chart-kernels"
    replicas = 1

    def __init__(self):
        kubectl("create", "namespace", self.namespace)
        super().__init__()

    def install(self):
        """`helm install`."""
        self.helm("install", self.values())

    def values(self, **changes):
        """The values of the release."""
        images = {name: os.environ[f"HIMALIA_TEST_{name.upper()}_IMAGE"] for name in ("gateway", "kernel", "agent")}
        return {
            "store": "postgres-s3",
            "replicas": self.replicas,
            "images": images,
            "kernels": {"namespace": self.kernels, "memory": "200MiB", "cpu": 0.2},
            "gateway": {"env": api_server(), "resources": RESOURCES},
            "tables": '[templates.small]\nkernelspec = "python3"\ndisk = "64MiB"\ntmp = "32MiB"\nshm = "16MiB"',
            **changes,
        }

    def helm(self, verb, values):
        """`helm install` or `helm upgrade`, which waits until the replica is ready."""
        command = (HELM, verb, "himalia", str(CHART), "--namespace", self.namespace, "--values", "-", "--wait", "--timeout", "180s")
        return printed(*command, stdin=json.dumps(values))

    def stop(self):
        """`helm uninstall`, and the namespace with the secrets."""
        printed(HELM, "uninstall", "himalia", "--namespace", self.namespace, "--wait", "--timeout", "120s", check=False)
        kubectl("delete", "namespace", self.namespace, "--wait=false")
        self.s3.stop()
        self.postgres.stop()


def follow(client, execution, on_line, seconds=120):
    """The result of a running cell whose replica may be lost. `on_line` gets each line of its output as it comes."""
    end, seen = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            reply = client.get(f"v1/executions/{execution}", params={"wait_s": 1}, timeout=20)
        except httpx.TransportError:
            continue
        if reply.status_code == 503:
            # It has no owner now.
            time.sleep(0.2)
            continue
        result = reply.raise_for_status().json()
        lines = result.get("text", "").splitlines()
        for line in lines[seen:]:
            on_line(line)
        seen = max(seen, len(lines))
        if result["status"] not in ("pending", "queued", "running"):
            return result
    raise AssertionError(f"the cell has not ended after {seconds} s")
