"""Floods of output through gateway, shim and kernel: nothing is lost, memory stays bounded, interrupts get through."""

import hashlib
import threading
import time

import pytest
from channels import Channels
from processes import memory_mb, parent
from waiting import eventually

# Peak resident memory that each process may reach whatever is printed, MB. On a loaded machine the gateway holds more copies of prints of 10 MB, and
# its allocator keeps freed ones for up to a second: up to 310 were seen.
GATEWAY, SHIM, KERNEL = 384, 96, 120

FLOOD = """
import hashlib
digest = hashlib.sha256()
for n in range({count}):
    line = f"{{n:08d}}" + "x" * {size} + "\\n"
    digest.update(line.encode())
    print(line, end="")
digest.hexdigest()
"""


def pids(client):
    """(shim, kernel) of the kernel that a client is connected to."""
    kernel = int(client.run("import os; print(os.getpid())").text())
    return parent(kernel), kernel


def peaks(gateway, shim, kernel):
    """Peak memory of the three, MB."""
    return {
        "gateway": gateway.memory_mb(),
        "shim": memory_mb(shim, "VmHWM"),
        "kernel": memory_mb(kernel, "VmHWM"),
    }


def bounded(gateway, shim, kernel):
    """Checks the three bounds."""
    found = peaks(gateway, shim, kernel)
    assert found["gateway"] < GATEWAY and found["shim"] < SHIM and found["kernel"] < KERNEL, found


def read(client, msg_id):
    """Digest of all text of a request and its result, without keeping the text."""
    digest, result, idle, reply = hashlib.sha256(), None, False, False
    while not idle or not reply:
        message = client.receive()
        if message["parent_header"].get("msg_id") != msg_id:
            continue
        if message["msg_type"] == "stream":
            digest.update(message["content"]["text"].encode())
        elif message["msg_type"] == "execute_result":
            result = message["content"]["data"]["text/plain"].strip("'")
        elif message["msg_type"] == "status":
            idle = idle or message["content"]["execution_state"] == "idle"
        elif message["channel"] == "shell":
            reply = True
    return digest.hexdigest(), result


@pytest.mark.parametrize(
    ("count", "size"),
    [(1000, 100_000), (200_000, 5), (10, 10_000_000)],
    ids=["100 kB prints", "small prints", "10 MB prints"],
)
@pytest.mark.parametrize("framing", ["v1", "legacy"])
def test_all_of_a_flood_arrives(shared, kernel_id, framing, count, size):
    with Channels(shared, kernel_id, framing) as client:
        shim, kernel = pids(client)
        found, printed = read(client, client.submit(FLOOD.format(count=count, size=size)))
        assert found == printed
        limit = KERNEL + 2 * size / 1e6  # the program's own text
        assert memory_mb(kernel, "VmHWM") < limit
        assert memory_mb(shim, "VmHWM") < SHIM
        assert shared.memory_mb() < GATEWAY


def test_a_reader_that_never_reads_disturbs_no_other_client(shared, kernel_id):
    with Channels(shared, kernel_id, max_queue=(1, 0)) as stalled, Channels(shared, kernel_id) as client:
        shim, kernel = pids(client)
        found, printed = read(client, client.submit(FLOOD.format(count=1000, size=100_000)))
        assert found == printed
        bounded(shared, shim, kernel)
        # The stalled one can still catch up, in order, if it was not told to reconnect.
        assert client.run("1 + 1").of("execute_result")
        stalled.drop()


def test_no_client_reads_at_all(shared, kernel_id):
    with Channels(shared, kernel_id) as client:
        shim, kernel = pids(client)
        msg_id = client.submit(FLOOD.format(count=1000, size=100_000))
    eventually(
        lambda: shared.http.get(f"api/kernels/{kernel_id}").json()["execution_state"] == "idle", "the flood ends", 60
    )
    bounded(shared, shim, kernel)
    with Channels(shared, kernel_id, session=client.session) as again:
        found, printed = read(again, msg_id)
    assert found == printed


ENDLESS = {
    "100 kB prints": "while True: print('x' * 100_000)",
    "small prints": "while True: print('x')",
    "flushed prints": "while True: print('x' * 1000, flush=True)",
    "displays": "while True: display('x' * 100_000)",
    "from the C level": "import os\nwhile True: os.write(1, b'x' * 10_000)",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_an_interrupt_ends_an_endless_flood_within_a_second(shared, kernel_id, name):
    with Channels(shared, kernel_id) as client:
        shim, kernel = pids(client)
        client.submit(ENDLESS[name])
        client.until(lambda m: m["msg_type"] in ("stream", "display_data"))
        # Keep reading, as a client does, and look when the end comes out of the kernel.
        ended = []

        def drain():
            reply = client.until(lambda m: m["channel"] == "shell", 60)[-1]
            ended.append((time.monotonic(), reply["content"]))

        reader = threading.Thread(target=drain)
        reader.start()
        eventually(lambda: memory_mb(kernel, "VmHWM") and True, "the kernel lives")
        asked = time.monotonic()
        shared.interrupt(kernel_id)
        answered = time.monotonic()
        eventually(lambda: shared.http.get(f"api/kernels/{kernel_id}").json()["execution_state"] == "idle", "idle", 20)
        idle = time.monotonic()
        reader.join(60)
        assert ended and ended[0][1]["ename"] == "KeyboardInterrupt"
        assert answered - asked < 1
        assert idle - asked < 2, (answered - asked, idle - asked)
        assert client.run("40 + 2").of("execute_result")
        bounded(shared, shim, kernel)


def test_control_answers_while_a_flood_runs(shared, kernel_id):
    with Channels(shared, kernel_id) as flooder, Channels(shared, kernel_id) as other:
        msg_id = flooder.submit(ENDLESS["100 kB prints"])
        flooder.until(lambda m: m["msg_type"] == "stream")
        question = other.send("kernel_info_request", {}, "control")
        reply = other.until(lambda m: m["channel"] == "control", 30)[-1]
        assert reply["parent_header"]["msg_id"] == question
        shared.interrupt(kernel_id)
        assert flooder.outcome(msg_id).content["ename"] == "KeyboardInterrupt"
