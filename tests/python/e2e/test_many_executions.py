"""Thousands of past executions do not slow the next one: what the gateway reads, writes and computes for it stays the same."""

import os
import statistics
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

BLOCK, PAST = 200, 5000


def work(pid):
    """Bytes that a process has read and written by any call, and the clock ticks that it has computed."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    io = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return io["rchar"] + io["wchar"], int(fields[11]) + int(fields[12])


def executions(gateway, session, count):
    """Run them one after another; bytes for each in the middle of the field, and ticks for all."""
    path, pid = f"v1/sessions/{session}/executions", gateway.process.pid
    moved, (before, begun) = [], work(pid)
    for n in range(count):
        reply = gateway.http.post(path, json={"code": f"{n}", "idempotency_key": os.urandom(8).hex()})
        assert reply.status_code == 200 and reply.json()["status"] == "ok", reply.text
        now, _ = work(pid)
        moved.append(now - before)
        before = now
    return statistics.median(moved), work(pid)[1] - begun


@pytest.mark.timeout(300)
def test_the_next_one_costs_what_the_first_one_cost(gateway):
    session = gateway.start_session()
    executions(gateway, session, BLOCK)  # the kernel's own first times
    first, first_ticks = executions(gateway, session, BLOCK)
    executions(gateway, session, PAST - 2 * BLOCK)
    later, later_ticks = executions(gateway, session, BLOCK)
    print(f"bytes moved for one: {first} and, after {PAST}, {later}; ticks for {BLOCK}: {first_ticks} and {later_ticks}")
    assert later < 1.25 * first
    # Also where nothing is read or written for it: three times is far above what a loaded machine adds to processor time.
    assert later_ticks < 3 * first_ticks + 20
    history = gateway.http.get(f"v1/sessions/{session}/history?limit=1").json()
    assert history["total"] == PAST + BLOCK and history["history"][0]["execution_count"] == PAST + BLOCK
