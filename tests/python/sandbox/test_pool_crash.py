"""kill -9 of a gateway with warm kernels, while some of them are being claimed."""

import json
import threading
from pathlib import Path

import httpx
import pytest
from channels import Channels
from files import beneath
from levels import AtLevel
from processes import alive
from waiting import eventually

CLAIMS = 3
# Standby sandboxes for the next start: one for the template.
STANDBYS = 1
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def own(tmp_path, kernel_python):
    """A gateway with a larger pool, and its run directory."""
    gateway = AtLevel(tmp_path, "namespaces", pool=CLAIMS)
    run = Path((gateway.directory / "data" / "run-dir").read_text())
    yield gateway, run
    gateway.stop()
    assert not sandboxes(run)


def sandboxes(run):
    """Process ids of the shims of all sandboxes that a gateway has on record."""
    found = {}
    for file in beneath(run):
        if file.suffix != ".json":
            continue
        try:
            found[file.stem] = json.loads(file.read_text())["shim"]
        except (FileNotFoundError, ValueError):
            continue
    return {name: shim["pid"] for name, shim in found.items() if shim}


def test_pooled_kernels_are_not_lost_and_not_given_twice(own):
    gateway, run = own

    def ready():
        pools = gateway.http.get("v1/pools").json()["pools"]
        return sum(pool["ready"] for pool in pools)

    for delay in range(5):
        eventually(lambda: ready() == CLAIMS, "the pool is full", 120)
        before = sandboxes(run)
        promised, begun = [], threading.Barrier(CLAIMS + 1)

        def claim(promised=promised, begun=begun):
            with httpx.Client(base_url=gateway.url, headers=gateway.http.headers, timeout=60, trust_env=False) as http:
                http.get("v1/pools")
                begun.wait()
                try:
                    reply = http.post("v1/sessions", json={"template": "pooled"})
                except httpx.TransportError:
                    return
                if reply.status_code == 201:
                    promised.append(reply.json())

        claims = [threading.Thread(target=claim) for _ in range(CLAIMS)]
        for one in claims:
            one.start()
        begun.wait()
        # Different moments of the claims, from before they arrive to after they are answered.
        for _ in range(delay * 2):
            gateway.http.get("v1/pools")
        gateway.kill()
        for one in claims:
            one.join()
        gateway.start()
        sessions = [made["id"] for made in gateway.http.get("v1/sessions").json()["sessions"]]
        assert {made["id"] for made in promised} <= set(sessions)
        seen = set()
        for made in sessions:
            eventually(lambda made=made: gateway.show(made)["state"] == "idle", "a claimed kernel was taken over", 60)
            with Channels(gateway, made) as client:
                used = client.run("import os; print('used' in globals(), os.stat('/session').st_dev); used = True")
                fresh, place_of = used.text().split()
                assert fresh == "False", "another session had it before"
                seen.add(place_of)
        assert len(seen) == len(sessions), "two sessions share a kernel"
        expected = len(sessions) + CLAIMS + STANDBYS
        eventually(lambda: len(sandboxes(run)) == expected and ready() == CLAIMS, "sessions and a full pool, no more", 120)
        now = sandboxes(run)
        lost = {name: pid for name, pid in before.items() if name not in now and alive(pid)}
        assert not lost, lost
        for made in sessions:
            gateway.end(made)
        logs = gateway.directory / "data" / "kernels"
        eventually(lambda: len(list(logs.iterdir())) == CLAIMS, "no log but those of the pool")
