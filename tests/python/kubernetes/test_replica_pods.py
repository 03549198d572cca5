"""Three replicas as pods: any serves any client, a pool is shared, and what a replica leaves is removed."""

import pytest
from replica_pods import ReplicaPods, follow
from waiting import eventually

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def replicas():
    """Three replicas, with Postgres and S3."""
    pods = ReplicaPods()
    yield pods
    pods.stop()


def run(client, session, code, wait=60):
    """The result of a cell."""
    reply = client.post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": wait})
    assert reply.status_code in (200, 201), reply.text
    return reply.json()


def test_a_staged_analysis_through_all_replicas(replicas):
    names = sorted(replicas.ready())
    with replicas.client(names[0]) as first, replicas.client(names[1]) as second, replicas.client(names[2]) as third:
        made = first.post("v1/sessions", json={"template": "python3"})
        assert made.status_code == 201, made.text
        session = made.json()["id"]
        assert replicas.owner(session) == names[0]
        assert run(first, session, "import statistics; data = [1, 2, 3, 4]")["status"] == "ok"
        assert run(second, session, "mean = statistics.mean(data)")["status"] == "ok"
        assert "2.5" in run(third, session, "print(mean)")["text"]
        assert third.delete(f"v1/sessions/{session}").status_code == 204


def test_a_pool_is_shared_and_a_claim_takes_a_pod_of_it(replicas):
    names = sorted(replicas.ready())

    def parts():
        found = []
        for name in names:
            with replicas.client(name) as client:
                pool = client.get("v1/pools").json()["pools"][0]
                found.append((pool["target"], pool["ready"]))
        return found

    eventually(lambda: parts() == [(1, 1)] * 3, lambda: f"each has its part: {parts()}", 120)
    with replicas.client(names[1]) as client:
        made = client.post("v1/sessions", json={"template": "warm"}).json()
        assert made["started_by"] == "pool", made
        assert "2" in run(client, made["id"], "print(1 + 1)")["text"]
        assert client.delete(f"v1/sessions/{made['id']}").status_code == 204


def test_the_owner_is_lost_in_the_middle_of_a_cell_and_the_rest_arrives(replicas):
    names = sorted(replicas.ready())
    with replicas.client(names[0]) as first, replicas.client(names[1]) as second:
        session = first.post("v1/sessions", json={"template": "python3"}).json()["id"]
        run(first, session, "kept = 41")
        code = "import time\nfor n in range(30):\n    print('line', n, flush=True)\n    time.sleep(0.2)\nkept + 1"
        started = second.post(f"v1/sessions/{session}/executions", json={"code": code, "background": True}).json()
        lines = []

        def on_line(line):
            lines.append(line)
            if line == "line 8":
                assert replicas.owner(session) == names[0]
                replicas.kill(names[0])

        result = follow(second, started["id"], on_line)
        assert result["status"] == "ok" and "42" in str(result), result
        assert [line for line in lines if line.startswith("line ")] == [f"line {n}" for n in range(30)]
        assert "42" in run(second, session, "print(kept + 1)")["text"]
        assert second.delete(f"v1/sessions/{session}").status_code == 204
    eventually(lambda: len(replicas.ready()) == 3, replicas.said, 120)


def test_another_replica_takes_the_sessions_of_one_that_is_lost_and_removes_what_it_leaves(replicas):
    first, *_, last = sorted(replicas.ready())
    with replicas.client(last) as client:
        pool = lambda: client.get("v1/pools").json()["pools"][0]["ready"]
        eventually(lambda: pool() == 1, "it has a pod that waits", 60)
        session = client.post("v1/sessions", json={"template": "python3"}).json()["id"]
        run(client, session, "kept = 41")
    # It does not come back.
    replicas.scale(2)
    replicas.kill(last)
    with replicas.client(first) as client:
        cell = {"code": "print(kept + 1)", "wait_s": 60}
        execute = lambda: client.post(f"v1/sessions/{session}/executions", json=cell)
        result = eventually(lambda: (reply := execute()).status_code in (200, 201) and reply.json(), "another one has it", 60)
        assert "42" in result["text"], result
        assert replicas.owner(session) in replicas.ready()
        assert last in replicas.sandboxes().values(), "its pod is the same"
        assert client.delete(f"v1/sessions/{session}").status_code == 204
    eventually(lambda: last not in replicas.sandboxes().values(), lambda: f"left: {replicas.sandboxes()}", 90)
    assert len(replicas.ready()) == 2
    replicas.scale(3)
    eventually(lambda: len(replicas.ready()) == 3, replicas.said, 120)
