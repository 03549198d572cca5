"""Several gateways share one Postgres database: each has its own sessions, and a lease by which it may act."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from channels import Channels
from postgres import Postgres
from processes import alive
from replicas import Replicas
from servers import client_with
from waiting import eventually


@pytest.fixture
def replicas(tmp_path, postgres, kernel_python):
    """Three gateways with short leases."""
    started = Replicas(tmp_path, postgres, 3, lease="3s")
    yield started
    started.stop()


def run(gateway, kernel, code):
    """Run a cell; returns what it printed."""
    with Channels(gateway, kernel) as client:
        return client.run(code).text().strip()


def listed(gateway):
    """Ids of the kernels that a gateway lists."""
    return {kernel["id"] for kernel in gateway.http.get("api/kernels").json()}


def test_each_replica_has_its_own_sessions_and_finds_them_again(replicas):
    kernels = [replica.start_kernel() for replica in replicas.all]
    for replica, kernel in zip(replicas.all, kernels):
        run(replica, kernel, "x = 41")
        assert listed(replica) == {kernel}
    rows = dict(row.split("|") for row in replicas.sql("SELECT id, replica || ' ' || fence FROM himalia.kernels"))
    assert rows == {kernel: f"r{number} 1" for number, kernel in enumerate(kernels)}

    # A name is one session's in all of the cluster.
    assert replicas[1].http.put("v1/sessions/eda", json={"template": "python3"}).status_code == 201
    refused = replicas[2].http.put("v1/sessions/eda", json={"template": "python3"})
    assert refused.status_code == 409, refused.text
    assert "another gateway has the session eda" in refused.text
    assert replicas[1].http.delete("v1/sessions/eda").status_code == 204

    replicas[0].kill()
    # The lock of its data directory shows that the earlier process has ended: it does not wait for the lease.
    replicas[0].start()
    assert listed(replicas[0]) == {kernels[0]}
    eventually(lambda: run(replicas[0], kernels[0], "print(x + 1)") == "42", "the variable is there")
    assert replicas.sql(f"SELECT replica, fence FROM himalia.kernels WHERE id = '{kernels[0]}'") == ["r0|2"]
    for number in (1, 2):
        assert run(replicas[number], kernels[number], "print(x + 1)") == "42"
    live = replicas.sql("SELECT name FROM himalia.replicas WHERE lease_until > now() ORDER BY name")
    assert live == ["r0", "r1", "r2"]


def test_a_token_counts_in_all_replicas_until_it_is_revoked(replicas):
    made = replicas[0].http.post("v1/tokens", json={"caller": "ci", "scope": "read"})
    assert made.status_code == 201, made.text
    with client_with(replicas[1], made.json()["token"]) as client:
        eventually(lambda: client.get("v1/sessions").status_code == 200, "the token counts")
        path = f"v1/tokens/{made.json()['id']}"
        eventually(lambda: replicas[2].http.delete(path).status_code == 200, "another replica knows the token")
        # 429 after too many unknown tokens, of which there were some above.
        eventually(lambda: client.get("v1/sessions").status_code in (401, 429), "the token is revoked")


def ends_with_its_lease(replica):
    """It ends by itself and says why."""
    assert replica.process.wait(30) == 1
    said = replica.log.read_text()
    assert f"replica {replica.name} ends, because" in said and "lease" in said, said[-2000:]


def test_replicas_share_a_pool(tmp_path, postgres, kernel_python):
    config = tmp_path / "himalia.toml"
    config.write_text('[templates.warm]\nkernelspec = "python3"\n[templates.warm.pool]\nsize = 4\nmax = 4\n')
    started = Replicas(tmp_path, postgres, 2, "--config", str(config), lease="3s")

    def parts():
        living = [replica for replica in started.all if replica.process.poll() is None]
        pools = [replica.http.get("v1/pools").json()["pools"][0] for replica in living]
        return [(pool["target"], pool["ready"]) for pool in pools]

    try:
        eventually(lambda: parts() == [(2, 2), (2, 2)], "each has half of it", 60)
        started[1].kill()
        eventually(lambda: parts() == [(4, 4)], "all of it is where there is one replica", 60)
    finally:
        started.stop()


def test_starts_are_served_from_the_pools_of_all_replicas(tmp_path, postgres, kernel_python):
    config = tmp_path / "himalia.toml"
    config.write_text('[templates.warm]\nkernelspec = "python3"\n[templates.warm.pool]\nsize = 3\nmax = 3\n')
    started = Replicas(tmp_path, postgres, 3, "--config", str(config), relay=True)

    def known():
        return started.sql("SELECT ready ->> 'warm' FROM himalia.replicas")

    def start(name):
        return started[0].http.put(f"v1/sessions/{name}", json={"template": "warm"})

    try:
        eventually(lambda: known() == ["1", "1", "1"], "each has one and says so", 60)
        with ThreadPoolExecutor(3) as threads:
            replies = list(threads.map(start, ["a", "b", "c"]))
        assert [(reply.status_code, reply.json()["started_by"]) for reply in replies] == [(201, "pool")] * 3
        ids = [reply.json()["id"] for reply in replies]
        owners = started.sql("SELECT replica FROM himalia.kernels ORDER BY replica")
        assert owners == ["r0", "r1", "r2"], "one came from each pool"
        assert 'himalia_starts_elsewhere_total{outcome="served"} 2' in started[0].http.get("metrics").text
        for number, kernel in enumerate(ids):
            assert run(started[number], kernel, f"x = {number}; print(x + 1)") == str(number + 1)
        assert start("a").json()["id"] == ids[0], "a name is one session's"
        for name in ["a", "b", "c"]:
            started[1].http.delete(f"v1/sessions/{name}")
    finally:
        started.stop()


def test_a_replica_without_the_store_ends_and_its_kernels_continue(replicas, postgres):
    kernel = replicas[0].start_kernel()
    pid = int(run(replicas[0], kernel, "x = 41; import os; print(os.getpid())"))
    postgres.kill()
    for replica in replicas.all:
        ends_with_its_lease(replica)
    assert alive(pid)
    postgres.start()
    for replica in replicas.all:
        replica.start()
    eventually(lambda: run(replicas[0], kernel, "print(x + 1)") == "42", "the variable is there")


def test_a_replica_that_was_paused_for_too_long_ends_without_answering(replicas):
    kernel = replicas[0].start_kernel()
    run(replicas[0], kernel, "x = 41")
    replicas[0].process.send_signal(signal.SIGSTOP)
    eventually(lambda: not replicas.sql("SELECT 1 FROM himalia.replicas WHERE name = 'r0' AND lease_until > now()"), "the lease ends")
    replicas[0].process.send_signal(signal.SIGCONT)
    ends_with_its_lease(replicas[0])
    replicas[0].start()
    eventually(lambda: run(replicas[0], kernel, "print(x + 1)") == "42", "the variable is there")


def test_a_stopped_replica_gives_its_lease_back(replicas):
    replicas[2].process.send_signal(signal.SIGTERM)
    assert replicas[2].process.wait(30) == 0
    assert replicas.sql("SELECT name FROM himalia.replicas WHERE lease_until > now() ORDER BY name") == ["r0", "r1"]


def test_what_does_not_belong_together_is_refused(replicas, tmp_path):
    def refused(replica, directory, url, code=1):
        command = [*replica.command(), "serve", "--listen", "127.0.0.1:0", "--data-dir", str(directory), "--replica", replica.name]
        done = subprocess.run(
            [*command, "--lease", "3s", *replica.isolation],
            env={**os.environ, "HIMALIA_STORE": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    # A second process of a living replica, elsewhere.
    assert "another gateway of this name is running" in refused(replicas[0], tmp_path / "other", replicas.url)
    # The data directory of another replica.
    replicas[1].process.send_signal(signal.SIGTERM)
    assert replicas[1].process.wait(30) == 0
    assert "belongs to replica r1" in refused(replicas[2], replicas[1].directory / "data", replicas.url)
    assert "store: must be an address" in refused(replicas[1], tmp_path / "new", "mysql://u:canary@h/d", code=2)
