"""Events over WebSockets: the records of the stream, cut anywhere, refused where a stream is."""

import json
import random
import threading

import pytest
from events import follow
from waiting import eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


def open_events(gateway, path, query="", **more):
    """A socket for the events at a path."""
    url = gateway.url.replace("http", "ws", 1) + path + query
    headers = {"Authorization": f"token {gateway.token}"}
    return connect(url, additional_headers=headers, proxy=None, max_size=None, open_timeout=60, **more)


def begin(gateway, session, code, **more):
    """Run code in the background and return its path."""
    body = {"code": code, "background": True, **more}
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json=body)
    assert reply.status_code == 202, reply.text
    return reply.headers["location"].lstrip("/")


def is_over(gateway, path):
    """Whether an execution has ended."""
    return gateway.http.get(path).json()["status"] not in ("queued", "running")


def cut_anywhere(gateway, path, last, chance):
    """Read events over sockets that are torn down after random numbers of messages, up to the record `last`."""
    seen, after, cuts = [], 0, 0
    while after < last:
        left = chance.randrange(1, 40)
        with open_events(gateway, path, f"?after={after}", close_timeout=0) as socket:
            while left > 0 and after < last:
                event = json.loads(socket.recv(timeout=60))
                assert event["seq"] > after
                after, left = event["seq"], left - 1
                seen.append(event)
            # Without a close frame, with messages on their way or in the middle of one.
            socket.socket.close() if chance.random() < 0.5 else socket.close()
        cuts += 1
    return seen, cuts


def test_sockets_that_are_cut_anywhere_see_all_of_it_once(shared, session):
    seed = random.randrange(1 << 32)
    code = "import time\nfor n in range(300):\n    print('line', n, flush=True)\n    time.sleep(0.002)\nprint('x' * 300_000)"
    found = {}
    path = begin(shared, session, code)
    with open_events(shared, path + "/events") as live:
        events = [json.loads(message) for message in live]
        assert (events[0]["event"], events[-1]["event"]) == ("queued", "done")
        assert live.close_code == 1000
    last = events[-1]["seq"]

    def watch(number):
        found[number] = cut_anywhere(shared, f"v1/sessions/{session}/events", last, random.Random(seed + number))

    watchers = [threading.Thread(target=watch, args=(number,)) for number in range(3)]
    for watcher in watchers:
        watcher.start()
    for watcher in watchers:
        watcher.join(120)
    streamed = follow(shared, session, 0, lambda event: event["seq"] >= last)
    assert len(found) == 3
    for seen, cuts in found.values():
        assert seen == streamed and cuts > 5, f"seed {seed}"
    whole = "".join(f"line {n}\n" for n in range(300)) + "x" * 300_000 + "\n"
    assert "".join(event["text"] for event in events if event["event"] == "stdout") == whole
    again, cuts = cut_anywhere(shared, path + "/events", last, random.Random(seed))
    assert again[-1] == events[-1]
    assert "".join(event["text"] for event in again if event["event"] == "stdout") == whole, f"seed {seed}"


def test_events_come_while_it_runs_and_end_with_the_session(shared):
    session = shared.start_session()
    with open_events(shared, f"v1/sessions/{session}/events", "?after=0") as socket:
        path = begin(shared, session, "print('now', flush=True)\ninput()", allow_stdin=True)
        seen = []
        while not (seen and seen[-1].get("channel") == "stdin"):
            seen.append(json.loads(socket.recv(timeout=60)))
        assert any(e["event"] == "message" and e["content"].get("text") == "now\n" for e in seen)
        assert [e["seq"] for e in seen] == sorted({e["seq"] for e in seen}) and not is_over(shared, path)
        assert shared.http.delete(f"v1/sessions/{session}").status_code == 204
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(timeout=60)
        assert socket.close_code == 1000


def test_a_client_that_reads_nothing_costs_no_memory(gateway):
    session = gateway.start_session()
    code = "for n in range(60):\n    print('y' * 1_000_000)"
    with open_events(gateway, f"v1/sessions/{session}/events", "?after=0", max_queue=1) as socket:
        first = json.loads(socket.recv(timeout=60))
        before = gateway.memory_mb()
        path = begin(gateway, session, code)
        eventually(lambda: is_over(gateway, path), "it ends", 120)
        assert gateway.memory_mb() - before < 60
        text, last = 0, first["seq"]
        while text < 60 * 1_000_001:
            event = json.loads(socket.recv(timeout=60))
            # Whatever was not kept is a gap, and nothing is missing without one.
            assert event["seq"] > last
            last = event["seq"]
            if event["event"] == "message" and event["header"]["msg_type"] == "stream":
                text += len(event["content"]["text"])
            assert event["event"] != "gap"
        assert text == 60 * 1_000_001


def test_what_a_stream_refuses_a_socket_refuses(shared, session):
    path = f"v1/sessions/{session}/events"

    def status(path, query="", **more):
        with pytest.raises(InvalidStatus) as refused, open_events(shared, path, query, **more):
            pass
        return refused.value.response.status_code

    assert status(path, origin="https://evil.example") == 403
    assert status(path, "?after=x") == 400
    assert status(path, "?buffers=raw") == 400
    assert status("v1/sessions/nothing-here/events") == 404
    assert status("v1/executions/exe_none_1/events") in (400, 404)
    url = shared.url.replace("http", "ws", 1) + path
    with pytest.raises(InvalidStatus) as refused, connect(url, proxy=None):
        pass
    assert refused.value.response.status_code == 401
    # As browsers do it, who can set no header.
    own = shared.url.rstrip("/").split("://")[1].split("/")[0]
    with connect(f"{url}?after=0&token={shared.token}", proxy=None, origin=f"http://{own}") as socket:
        assert json.loads(socket.recv(timeout=60))["seq"] >= 1
        socket.ping().wait(60)
        socket.send("hello")
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(timeout=60)
        assert socket.close_code == 1003
