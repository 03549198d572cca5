"""The log of a session outlives the disk of its gateway, if replicas share a store and an object store."""

import shutil
import subprocess

import events
import pytest
from channels import Channels
from postgres import Postgres
from replicas import Replica, Replicas
from s3 import S3
from waiting import eventually

LINES = 80

CELL = f"""
import time
runs = globals().get("runs", 0) + 1
for n in range({LINES}):
    print("line", n, flush=True)
    time.sleep(0.05)
print("runs", runs)
"""


@pytest.fixture
def s3():
    """A server that speaks S3."""
    server = S3()
    yield server
    server.stop()


@pytest.fixture(params=["directory", "s3"])
def replicas(request, tmp_path, kernel_python):
    """A gateway whose logs are shared; no other one takes its sessions over."""
    postgres = Postgres()
    if request.param == "s3":
        server = request.getfixturevalue("s3")
        objects, env = server.url, server.environment
    else:
        objects, env = f"file://{tmp_path / 'objects'}", None
    started = Replicas(tmp_path, postgres, 1, "--object-store", objects, lease="3s", env=env)
    yield started
    started.stop()
    postgres.stop()


def lose_the_disk(replica):
    """kill -9 of a gateway whose data directory is lost with it."""
    replica.kill()
    shutil.rmtree(replica.directory / "data")


def test_kill_9_and_loss_of_the_data_directory_while_a_cell_runs(replicas):
    replica = replicas[0]
    kernel = replica.start_kernel()
    with Channels(replica, kernel) as client:
        client.submit(CELL)
        client.until(lambda m: m["msg_type"] == "stream" and "line 9\n" in m["content"]["text"])
    before = events.follow(replica, kernel, 0, lambda e: e["event"] == "message" and "line 9" in e["content"].get("text", ""))
    lose_the_disk(replica)
    replica.start()
    after = events.follow(replica, kernel, 0, lambda e: e["event"] == "message" and "runs" in e["content"].get("text", ""))
    text = events.text([event for event in after if event["event"] == "message"])
    assert text == "".join(f"line {n}\n" for n in range(LINES)) + "runs 1\n"
    # What clients had seen has its numbers still.
    assert [event["seq"] for event in after[: len(before)]] == [event["seq"] for event in before]
    with Channels(replica, kernel) as client:
        assert client.run("print(runs)").text() == "1\n"


def test_ended_sessions_and_rolled_segments_outlive_the_data_directory(replicas):
    replica = replicas[0]
    living, ending = replica.start_session(), replica.start_session()
    # More than a segment of 16 MiB.
    large = run(replica, living, "for n in range(40): print(str(n % 10) * 500_000, flush=True)")
    small = run(replica, ending, "print(6 * 7)")
    eventually(lambda: replicas.sql("SELECT 1 FROM himalia.log_segments"), "a segment is an object", 60)
    replica.delete_session(ending)
    eventually(lambda: replica.http.get(f"v1/sessions/{ending}").json()["state"] == "ended", "it has ended")
    lose_the_disk(replica)
    replica.start()
    assert replica.http.get(f"v1/executions/{small['id']}").json()["text"] == "42\n"
    with replica.http.stream(
        "GET", f"v1/executions/{large['id']}/output", params={"cursor": 0}, headers={"Accept": "text/plain"}, timeout=120
    ) as reply:
        assert reply.status_code == 200
        text = reply.read().decode()
    assert text == "".join(str(n % 10) * 500_000 + "\n" for n in range(40))
    assert run(replica, living, "print(n)")["text"] == "39\n"


def test_a_replica_does_not_change_where_its_logs_are_and_no_backup_claims_to_have_them(replicas):
    replica = replicas[0]
    session = replica.start_session()
    replica.kill()
    with_objects = replica.options
    at = with_objects.index("--object-store")
    replica.options = with_objects[:at] + with_objects[at + 2 :]
    with pytest.raises(AssertionError, match="has shared logs of 1 sessions; start it with its --object-store"):
        replica.start()
    replica.options = with_objects
    replica.start()
    assert run(replica, session, "print(1)")["text"] == "1\n"
    output = replica.directory / "backup.tar"
    command = [*replica.command(), "backup", "--output", str(output), "--data-dir", str(replica.directory / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "belongs to a replica of a shared store" in done.stderr, done.stderr
    assert not output.exists()


@pytest.mark.parametrize("replicas", ["s3"], indirect=True)
def test_output_continues_while_the_object_store_is_away(replicas, s3):
    replica = replicas[0]
    session = replica.start_session()
    before = s3.objects()
    s3.kill()
    # Rolled segments wait; the newest is in the database, as before.
    printed = run(replica, session, "for n in range(40): print(str(n % 10) * 500_000, flush=True)")
    assert not replicas.sql("SELECT 1 FROM himalia.log_segments")
    # A start does not depend on it either.
    replica.kill()
    replica.start()
    assert run(replica, session, "print(n)")["text"] == "39\n"
    s3.start()
    eventually(lambda: replicas.sql("SELECT 1 FROM himalia.log_segments"), "a segment is an object", 60)
    assert set(s3.objects()) > set(before)
    lose_the_disk(replica)
    replica.start()
    assert replica.http.get(f"v1/executions/{printed['id']}").json()["status"] == "ok"
    with replica.http.stream("GET", f"v1/executions/{printed['id']}/output", headers={"Accept": "text/plain"}, timeout=120) as reply:
        assert reply.read().decode() == "".join(str(n % 10) * 500_000 + "\n" for n in range(40))
    replica.delete_session(session)
    ended = replica.http.get(f"v1/sessions/{session}").json()
    assert ended["state"] == "ended"


def test_credentials_that_are_wrong_are_told_at_the_start(tmp_path, s3):
    postgres = Postgres()
    env = {**s3.environment, "AWS_SECRET_ACCESS_KEY": "another"}
    with pytest.raises(AssertionError, match="(?s)object_store: .*403") as failed:
        Replica(tmp_path / "r", postgres.database(), "r", "--object-store", s3.url, env=env)
    assert "another" not in str(failed.value) and not s3.objects()
    postgres.stop()


def run(replica, session, code):
    """Run code and return its result."""
    reply = replica.http.post(f"v1/sessions/{session}/executions", json={"code": code}, timeout=120)
    assert reply.status_code == 200, reply.text
    assert reply.json()["status"] == "ok", reply.text
    return reply.json()
