"""A replica is lost, paused or stopped: the others take its sessions over, and clients see a pause."""

import json
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import events
import pytest
from channels import Channels
from replicas import Replicas
from waiting import eventually

sys.path.insert(0, str(Path(__file__).parents[3] / "clients" / "python"))

LINES = 100

CELL = f"""
import time
runs = globals().get("runs", 0) + 1
for n in range({LINES}):
    print("line", n, flush=True)
    time.sleep(0.1)
print("runs", runs)
"""
PRINTED = "".join(f"line {n}\n" for n in range(LINES)) + "runs 1\n"


@pytest.fixture
def replicas(tmp_path, postgres, kernel_python):
    """Three gateways with short leases, whose logs are shared, and that relay."""
    objects = f"file://{tmp_path / 'objects'}"
    started = Replicas(tmp_path, postgres, 3, "--object-store", objects, lease="3s", relay=True)
    yield started
    started.stop()


def owners(replicas):
    """The replica of each kernel."""
    return dict(row.split("|") for row in replicas.sql("SELECT id, replica FROM himalia.kernels"))


def taken_from(replicas, name):
    """No kernel is this replica's any more; who has them."""
    return eventually(lambda: (found := owners(replicas)) and name not in found.values() and found, f"{name} has nothing", 60)


def run(replica, session, code, **wait):
    """Run code and return its result."""
    reply = replica.http.post(f"v1/sessions/{session}/executions", json={"code": code, **wait}, timeout=120)
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def result(replica, execution):
    """The result of an execution that has ended, of any replica."""

    def ended():
        reply = replica.http.get(f"v1/executions/{execution}", timeout=60)
        assert reply.status_code == 200, reply.text
        return reply.json() if reply.json()["status"] not in ("queued", "running") else None

    return eventually(ended, "the execution has ended", 60)


def printed(messages, msg_id):
    """What the messages of a request printed, each of them once."""
    own = [m for m in messages if m["msg_type"] == "stream" and (m["parent_header"] or {}).get("msg_id") == msg_id]
    by_id = {m["msg_id"]: m["content"]["text"] for m in own}
    return "".join(by_id.values())


def has_ended(event):
    """Whether an event is the last output of the cell."""
    return event["event"] == "message" and "runs 1\n" in event["content"].get("text", "")


def first_lines(client):
    """Receive until the cell prints."""
    return client.until(lambda m: m["msg_type"] == "stream" and "line 3\n" in m["content"]["text"])


def test_kill_9_of_the_owner_and_loss_of_its_data_directory_in_the_middle_of_a_cell(replicas):
    owner, near, far = replicas.all
    named = owner.http.put("v1/sessions/eda", json={"template": "python3", "labels": {"team": "a"}}).json()["id"]
    run(owner, named, "x = 41")
    running = owner.start_session()
    ended = owner.start_session()
    result_of_ended = run(owner, ended, "print(6 * 7)")["id"]
    owner.delete_session(ended)
    eventually(lambda: owner.http.get(f"v1/sessions/{ended}").json()["state"] == "ended", "it has ended")
    notebook = {"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    lab = owner.http.post("api/sessions", json=notebook, timeout=60).json()
    execution = run(owner, running, CELL, wait_s=0)["id"]
    with Channels(near, lab["kernel"]["id"]) as client:
        msg_id = client.submit(CELL)
        seen = first_lines(client)
        owner.kill()
        shutil.rmtree(owner.directory / "data")
        # The client of another replica sees a pause.
        rest = client.outcome(msg_id, timeout=90, on_message=seen.append)
        assert rest.content["status"] == "ok"
        text = "".join(m["content"]["text"] for m in seen if m["msg_type"] == "stream" and m["content"]["name"] == "stdout")
        assert text == PRINTED
    # The execution has continued, once, and its record is complete; the log has no gap.
    assert result(far, execution)["text"] == PRINTED
    log = events.follow(far, running, 0, has_ended)
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    assert set(taken_from(replicas, "r0").values()) <= {"r1", "r2"}
    # What is idle, names, labels, Jupyter sessions, and what has ended.
    assert run(near, "eda", "print(x + 1)")["text"] == "42\n"
    assert far.http.get("v1/sessions/eda").json()["labels"] == {"team": "a"}
    assert near.http.put("v1/sessions/eda", json={"template": "python3"}).json()["id"] == named
    assert [one["id"] for one in far.http.get("api/sessions").json()] == [lab["id"]]
    assert far.http.get(f"v1/executions/{result_of_ended}").json()["text"] == "42\n"
    # It comes back with an empty disk, and ends nothing that is not its own any more.
    owner.start()
    assert run(owner, "eda", "print(x + 2)")["text"] == "43\n"
    assert owner.http.get(f"v1/executions/{execution}").json()["text"] == PRINTED


def test_a_request_with_a_key_survives_the_loss_of_its_owner(replicas):
    """The client for Python sends a key with each execution: it sees a pause, and the code runs once."""
    from himalia import Gateway

    owner, near, far = replicas.all
    session = owner.start_session()
    plain = Future()
    body = {"code": CELL}
    asked = threading.Thread(target=lambda: plain.set_result(far.http.post(f"v1/sessions/{session}/executions", json=body, timeout=120)))
    with Gateway(near.url, token_file=near.token_file) as gateway:
        begun = threading.Event()
        watcher = threading.Thread(target=lambda: (events.follow(near, session, 0, lambda event: "line 3" in json.dumps(event)), begun.set()))
        watcher.start()
        done = Future()
        runner = threading.Thread(target=lambda: done.set_result(gateway.attach(session).execute(CELL)))
        runner.start()
        assert begun.wait(60)
        asked.start()
        eventually(lambda: len(owner.http.get(f"v1/sessions/{session}/executions").json()["executions"]) == 2, "both were sent")
        owner.kill()
        assert done.result(120).text == PRINTED
    # Without a key the request may have been done, so it is not sent again.
    lost = plain.result(120)
    assert lost.status_code == 503 and lost.json()["retryable"] is False, lost.text
    for thread in (asked, watcher, runner):
        thread.join(60)


def test_those_that_are_left_share_the_sessions(replicas):
    sessions = [replicas[0].start_session() for _ in range(20)]
    for number, session in enumerate(sessions):
        run(replicas[0], session, f"x = {number}")
    replicas[0].kill()
    found = taken_from(replicas, "r0")
    assert set(found.values()) == {"r1", "r2"}, found
    for number, session in enumerate(sessions):
        assert run(replicas[1 + number % 2], session, "print(x)")["text"] == f"{number}\n"
    # And again, to the last one.
    replicas[1].kill()
    taken_from(replicas, "r1")
    for number, session in enumerate(sessions):
        assert run(replicas[2], session, "print(x)")["text"] == f"{number}\n"


def test_a_replica_that_was_paused_past_its_lease_does_nothing_more(replicas):
    owner, near, _ = replicas.all
    session = owner.start_session()
    execution = run(owner, session, CELL, wait_s=0)["id"]
    events.follow(owner, session, 0, lambda e: e["event"] == "message" and "line 3" in e["content"].get("text", ""))
    owner.process.send_signal(signal.SIGSTOP)
    taken_from(replicas, "r0")
    before = replicas.sql("SELECT name, replica, epoch FROM himalia.logs")
    owner.process.send_signal(signal.SIGCONT)
    assert owner.process.wait(30) == 1
    assert "replica r0 ends, because" in owner.log.read_text()
    assert result(near, execution)["text"] == PRINTED
    assert replicas.sql("SELECT name, replica, epoch FROM himalia.logs") == before
    log = events.follow(near, session, 0, has_ended)
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))


def test_a_relayed_client_of_a_paused_replica_waits_for_the_take_over_and_no_longer(replicas):
    owner, near, _ = replicas.all
    kernel = owner.start_kernel()
    with Channels(near, kernel) as client:
        msg_id = client.submit(CELL)
        seen = first_lines(client)
        # Its connections stay open, and nothing answers on them.
        owner.process.send_signal(signal.SIGSTOP)
        rest = client.outcome(msg_id, timeout=90, on_message=seen.append)
        assert rest.content["status"] == "ok"
        assert printed(seen, msg_id) == PRINTED
    # It looked for the next owner because of the lease, and not because of a ping without an answer.
    assert "the lease of a replica has ended" in near.log.read_text()
    owner.process.send_signal(signal.SIGCONT)
    assert owner.process.wait(30) == 1


def test_a_client_of_the_dead_replica_comes_back_anywhere_and_misses_nothing(replicas):
    owner, _, far = replicas.all
    kernel = owner.start_kernel()
    client = Channels(owner, kernel)
    msg_id = client.submit(CELL)
    seen = first_lines(client)
    owner.kill()
    seen += client.unread()
    with Channels(far, kernel, session=client.session) as again:
        seen += again.outcome(msg_id, timeout=90).iopub
    assert printed(seen, msg_id) == PRINTED


def test_what_no_other_replica_reaches_waits_for_its_own(replicas):
    owner, near, _ = replicas.all
    session = owner.start_session()
    run(owner, session, "x = 41")
    place = "jsonb_set(session, '{place}', '\"elsewhere\"')"
    replicas.sql(f"UPDATE himalia.kernels SET session = {place}")
    owner.kill()
    eventually(lambda: replicas.sql("SELECT 1 FROM himalia.replicas WHERE name = 'r0' AND lease_until = '-infinity'"), "the lease ends")
    assert owners(replicas) == {session: "r0"}
    owner.start()
    assert run(near, session, "print(x + 1)")["text"] == "42\n"
    assert owners(replicas) == {session: "r0"}


def test_a_stopped_replica_hands_its_sessions_over_at_once(replicas):
    owner, near, _ = replicas.all
    sessions = [owner.start_session() for _ in range(10)]
    execution = run(owner, sessions[0], CELL, wait_s=0)["id"]
    for session in sessions[1:]:
        run(owner, session, "x = 41")
    kernel = owner.start_kernel()
    pauses = []
    with Channels(near, kernel) as client:
        msg_id = client.submit(CELL)
        seen = first_lines(client)
        last = time.monotonic()

        def note(message):
            nonlocal last
            now = time.monotonic()
            pauses.append(now - last)
            last = now
            seen.append(message)

        stopped = threading.Thread(target=owner.process.send_signal, args=(signal.SIGTERM,))
        stopped.start()
        rest = client.outcome(msg_id, timeout=90, on_message=note)
        stopped.join()
        assert rest.content["status"] == "ok"
        assert printed(seen, msg_id) == PRINTED
        # No line says that the request may be lost: the owner had accepted it.
        assert not rest.text("stderr")
    assert owner.process.wait(60) == 0
    print(f"longest pause {max(pauses):.2f} s")
    taken_from(replicas, "r0")
    assert result(near, execution)["text"] == PRINTED
    for session in sessions[1:]:
        assert run(near, session, "print(x + 1)")["text"] == "42\n"


def test_without_others_a_stopped_replica_keeps_its_sessions(replicas):
    for other in (replicas[1], replicas[2]):
        other.process.send_signal(signal.SIGTERM)
        assert other.process.wait(60) == 0
    session = replicas[0].start_session()
    run(replicas[0], session, "x = 41")
    replicas[0].process.send_signal(signal.SIGTERM)
    assert replicas[0].process.wait(60) == 0
    assert owners(replicas) == {session: "r0"}
    replicas[0].start()
    assert run(replicas[0], session, "print(x + 1)")["text"] == "42\n"
