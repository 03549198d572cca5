"""The gateway is killed, or told to stop: kernels outlive it, nothing is lost, nothing runs twice."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import events
import pytest
from channels import Channels
from processes import alive
from waiting import eventually
from websockets.exceptions import ConnectionClosed

KERNELS, BUSY, LINES = 16, 5, 60

CELL = f"""
import os, time
runs = globals().get("runs", 0) + 1
for n in range({LINES}):
    print("line", n, flush=True)
    time.sleep(0.05)
runs
"""


def ended(msg_id):
    """A condition: reply and idle of a request have both been seen."""
    seen = set()

    def condition(event):
        if event["event"] == "message" and (event["parent_header"] or {}).get("msg_id") == msg_id:
            if event["header"]["msg_type"] == "execute_reply":
                seen.add("reply")
            elif event["content"].get("execution_state") == "idle":
                seen.add("idle")
        return seen == {"reply", "idle"}

    return condition


def states(gateway):
    """State of each kernel by id."""
    return {kernel["id"]: kernel["execution_state"] for kernel in gateway.http.get("api/kernels").json()}


def test_kill_9_with_many_kernels_some_of_them_busy(gateway):
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: gateway.start_kernel(), range(KERNELS)))
    pids = {}
    for number, kernel_id in enumerate(ids):
        with Channels(gateway, kernel_id) as client:
            pids[kernel_id] = int(client.run(f"import os; mine = {number}; print(os.getpid())").text())
    busy = {}
    for kernel_id in ids[:BUSY]:
        with Channels(gateway, kernel_id) as client:
            msg_id = client.submit(CELL)
            client.until(lambda m: m["msg_type"] == "stream" and "line 3" in m["content"]["text"])
            busy[kernel_id] = (client.session, msg_id)
    positions = {
        kernel_id: events.follow(
            gateway, kernel_id, 0, lambda e: e["event"] == "message" and "line 5" in e["content"].get("text", "")
        )
        for kernel_id in busy
    }

    gateway.kill()
    assert all(alive(pid) for pid in pids.values())
    gateway.start()
    ready = time.monotonic()
    eventually(
        lambda: (
            (now := states(gateway)).keys() == set(ids)
            and all(state == ("busy" if kernel_id in busy else "idle") for kernel_id, state in now.items())
        ),
        "all kernels are adopted",
        10,
    )
    assert time.monotonic() - ready < 3

    for kernel_id, (session, msg_id) in busy.items():
        # By position: everything exactly once.
        before = positions[kernel_id]
        rest = events.follow(gateway, kernel_id, before[-1]["seq"], ended(msg_id))
        log = before + rest
        assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
        assert events.text(events.of_request(log, msg_id)).splitlines() == [f"line {n}" for n in range(LINES)]
        # On the Jupyter socket with the same session id: the reply arrives, and nothing is missing to the end.
        with Channels(gateway, kernel_id, session=session) as client:
            done = client.outcome(msg_id)
        assert done.content["status"] == "ok"
        assert done.text().splitlines()[-1] == f"line {LINES - 1}"
        assert done.of("execute_result")[0]["content"]["data"]["text/plain"] == "1"

    for number, kernel_id in enumerate(ids):
        with Channels(gateway, kernel_id) as client:
            done = client.run("import os; print(os.getpid(), mine, globals().get('runs', 0))")
            assert done.text().split() == [str(pids[kernel_id]), str(number), "1" if kernel_id in busy else "0"]


def test_sigterm_tells_the_clients_and_keeps_the_kernels(gateway):
    kernel_id = gateway.start_kernel()
    client = Channels(gateway, kernel_id)
    pid = int(client.run("import os; kept = 'yes'; print(os.getpid())").text())
    msg_id = client.submit("import time\nfor n in range(40): print(n, flush=True); time.sleep(0.03)")
    first = client.until(lambda m: m["msg_type"] == "stream")
    gateway.process.send_signal(signal.SIGTERM)
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            first.append(client.receive(20))
    assert closed.value.rcvd.code == 1012
    assert gateway.process.wait(20) == 0
    assert alive(pid)

    gateway.start()
    eventually(lambda: kernel_id in states(gateway), "the kernel is adopted", 5)
    with Channels(gateway, kernel_id, session=client.session) as again:
        rest = again.outcome(msg_id)
        told = "".join(m["content"]["text"] for m in first if m["msg_type"] == "stream")
        assert (told + rest.text()).split() == [str(n) for n in range(40)]
        assert again.run("print(kept)").text() == "yes\n"


def test_ctrl_c_ends_the_kernels(gateway):
    kernel_id = gateway.start_kernel()
    with Channels(gateway, kernel_id) as client:
        pid = int(client.run("import os; print(os.getpid())").text())
    gateway.process.send_signal(signal.SIGINT)
    assert gateway.process.wait(20) in (0, -signal.SIGINT, 130)
    eventually(lambda: not alive(pid), "the kernel has ended")
    gateway.start()
    assert states(gateway) == {}


def test_a_kernel_that_dies_while_there_is_no_gateway_is_known_to_be_dead(gateway):
    kernel_id = gateway.start_kernel()
    with Channels(gateway, kernel_id) as client:
        pid = int(client.run("import os; print(os.getpid())").text())
    gateway.kill()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid), "it is gone")
    gateway.start()
    with Channels(gateway, kernel_id) as client:
        # Restarted, as a kernel that crashes under a gateway is. A request that came too early for the new process waits
        # for it and is answered.
        assert client.run("1").content["execution_count"] == 1
    kernel = gateway.http.get(f"api/kernels/{kernel_id}").json()
    assert kernel.get("reason") == "restarted after signal(9)"
    eventually(lambda: states(gateway)[kernel_id] == "idle", "a new process takes its place")
