"""Connections that are cut anywhere, and a gateway that is killed meanwhile: what a client gets in all is the log, once.

Each client continues after the last event that it saw whole, and cuts its connection after a random number of bytes. The
seed of a failed run is in its message; `HIMALIA_TEST_SEED` repeats it.
"""

import json
import os
import random
import threading
import time

import httpx
import pytest
from waiting import eventually

LINES = 400
CODE = f"""
import sys, time
from IPython.display import display, update_display
runs = globals().get("runs", 0) + 1
display({{"text/plain": "begun"}}, raw=True, display_id="state")
for n in range({LINES}):
    print("line", n, "ü" * (n % 50), file=sys.stderr if n % 7 == 0 else sys.stdout, flush=True)
    if n % 100 == 50:
        update_display({{"text/plain": f"at {{n}}"}}, raw=True, display_id="state")
    time.sleep(PAUSE)
print("x" * 20_000)
runs
"""
# Bytes after which a connection is cut; the last event has the whole result in it, so some go further.
ROOM = (400, 3_000, 40_000)
COPIES, DEADLINE = 2, 60


class Reader(threading.Thread):
    """A client of one stream that loses its connection again and again."""

    def __init__(self, gateway, path, accept, is_last, chance):
        super().__init__()
        self.gateway, self.path, self.accept, self.is_last, self.chance = gateway, path, accept, is_last, chance
        self.seen, self.connections, self.over, self.failure = [], 0, False, None

    def run(self):
        """Read until the last event, from either gateway."""
        end = time.monotonic() + DEADLINE
        try:
            while not self.over:
                assert time.monotonic() < end, f"{len(self.seen)} events over {self.connections} connections"
                try:
                    self._read_some()
                except httpx.TransportError:
                    pass  # the gateway is away
        except Exception as failure:
            self.failure = failure

    def _read_some(self):
        room = self.chance.randrange(200, self.chance.choice(ROOM))
        last = self.seen[-1]["seq"] if self.seen else 0
        url = f"{self.gateway.url}{self.path}?after={last}"
        headers = {"Authorization": f"token {self.gateway.token}", "Accept": self.accept}
        received, rest = 0, b""
        with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False) as reply:
            assert reply.status_code == 200, reply.read()
            self.connections += 1
            for chunk in reply.iter_raw(64):
                received += len(chunk)
                # What does not come whole was not seen.
                events, rest = whole(rest + chunk, self.accept)
                for event in events:
                    if "seq" in event and not self.over:
                        self.seen.append(event)
                        self.over = self.is_last(event)
                if self.over or received > room:
                    break


def whole(received, accept):
    """The events that are complete in what was received, and the bytes after them."""
    if accept == "application/x-ndjson":
        *lines, rest = received.split(b"\n")
        return [json.loads(line) for line in lines], rest
    *blocks, rest = received.split(b"\n\n")
    data = [line[5:] for block in blocks for line in block.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in data], rest


def is_done(event):
    """The last event of an execution."""
    return event["event"] == "done"


def log_of(gateway, path, accept, is_last):
    """The same events over one connection, after the end."""
    reader = Reader(gateway, path, accept, is_last, random.Random())
    reader.chance.randrange = lambda *_: 1 << 40
    reader.run()
    assert reader.failure is None and reader.connections == 1, reader.failure
    return reader.seen


def joined(events):
    """Events without what a reader's pace decides: how much text of one stream is in one event."""
    parts = []
    for event in events:
        if event["event"] not in ("stdout", "stderr"):
            parts.append(event)
        elif parts and parts[-1]["event"] == event["event"]:
            parts[-1]["text"] += event["text"]
        else:
            parts.append({"event": event["event"], "text": event["text"]})
    return parts


def check(reader, log, seed):
    """The union of what a client got is the log."""
    told = f"HIMALIA_TEST_SEED={seed}, {reader.path}, {reader.accept}, {reader.connections} connections"
    assert reader.failure is None, f"{told}: {reader.failure!r}"
    numbers = [event["seq"] for event in reader.seen]
    assert numbers == sorted(set(numbers)), f"{told}: an event came twice, or out of order"
    if "v1/executions" in reader.path:
        assert joined(reader.seen) == joined(log), told
    else:
        assert reader.seen == log, told
    assert reader.connections > 1, told


@pytest.mark.timeout(200)
@pytest.mark.parametrize("kills", [0, 3], ids=["connections are cut", "the gateway is killed, too"])
def test_the_union_of_what_was_received_is_the_log(gateway, kills):
    seed = int(os.environ.get("HIMALIA_TEST_SEED") or random.randrange(1 << 32))
    chance = random.Random(seed)
    session = gateway.start_session()
    code = CODE.replace("PAUSE", "0.02" if kills else "0.004")
    asked = {"code": code, "background": True, "idempotency_key": "once"}
    begun = gateway.http.post(f"v1/sessions/{session}/executions", json=asked).json()["id"]

    def is_over(event):
        content = event.get("content") or {}
        return content.get("data", {}).get("text/plain") == "'all of it'"

    ways = [
        (f"v1/executions/{begun}/events", "text/event-stream", is_done),
        (f"v1/executions/{begun}/events", "application/x-ndjson", is_done),
        (f"v1/sessions/{session}/events", "text/event-stream", is_over),
    ]
    readers = [Reader(gateway, *way, random.Random(seed + n)) for n, way in enumerate(ways * COPIES)]
    for reader in readers:
        reader.start()
    for _ in range(kills):
        # Somewhere in what the first client has still to see.
        target = len(readers[0].seen) + chance.randrange(10, 80)
        eventually(lambda: len(readers[0].seen) >= target or not readers[0].is_alive(), "it reads on", DEADLINE)
        gateway.kill()
        gateway.start()
        # The same request again, by a caller who got no answer, is the same execution.
        again = gateway.http.post(f"v1/sessions/{session}/executions", json=asked)
        assert again.json()["id"] == begun, again.text
    last = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": "'all of it'"}, timeout=120)
    assert last.json()["status"] == "ok", last.text
    for reader in readers:
        reader.join(DEADLINE)
        assert not reader.is_alive()

    for way in ways:
        log = log_of(gateway, *way)
        for reader in readers:
            if (reader.path, reader.accept) == way[:2]:
                check(reader, log, seed)
    events = log_of(gateway, *ways[0])
    printed = {name: "".join(e["text"] for e in events if e["event"] == name) for name in ("stdout", "stderr")}
    lines = [f"line {n} {'ü' * (n % 50)}\n" for n in range(LINES)]
    assert printed["stderr"] == "".join(lines[::7])
    assert printed["stdout"] == "".join(line for n, line in enumerate(lines) if n % 7) + "x" * 20_000 + "\n"
    kinds = [event["event"] for event in events]
    assert kinds.count("started") == 1 and kinds.count("update_display") == LINES // 100 and "gap" not in kinds
    result = events[-1]["result"]
    assert result["status"] == "ok" and result["outputs"][-1]["data"]["text/plain"] == "1", "it ran once"
