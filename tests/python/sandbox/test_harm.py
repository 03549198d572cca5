"""Code that does its worst: only its own kernel notices, the cause is named, and nothing is left behind."""

import contextlib
import os
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from channels import Channels
from leftovers import entries, left_by
from processes import having_argument
from waiting import eventually


def ended(gateway, session):
    """The session once it is dead, or `None`."""
    reply = gateway.http.get(f"v1/sessions/{session}")
    shown = reply.json() if reply.status_code == 200 else {"state": "dead", "reason": ""}
    return shown if shown["state"] == "dead" else None


@pytest.fixture
def neighbour(gateway):
    """Another session, which must not notice."""
    made = gateway.session()["id"]
    with Channels(gateway, made) as client:
        client.run("kept = 41")
        yield client
        assert client.run("print(kept + 1)").text() == "42\n"
    gateway.end(made)


def test_a_memory_bomb_kills_its_kernel_and_the_cause_is_oom(gateway, session, neighbour):
    with Channels(gateway, session["id"]) as client:
        client.submit("blocks = []\nwhile True: blocks.append(bytearray(b'x') * (16 << 20))")
        died = eventually(lambda: ended(gateway, session["id"]), "the kernel is dead", 120)
        assert died["reason"].startswith("oom"), died
        client.until(lambda m: m["msg_type"] == "status" and m["content"]["execution_state"] == "dead", 30)


def test_shared_memory_without_space_is_named_and_leaves_nothing(gateway, session, neighbour):
    fill = "from multiprocessing import resource_tracker, shared_memory\nresource_tracker.register = lambda *_: None\n"
    with Channels(gateway, session["id"]) as client:
        # 12 of the 16 MiB that the template has.
        fits = client.run(f"{fill}one = shared_memory.SharedMemory(create=True, size=12 << 20); one.buf[:] = bytes(12 << 20); print(len(one.buf) >> 20)")
        assert fits.text() == "12\n", fits.content
        client.submit("two = shared_memory.SharedMemory(create=True, size=12 << 20); two.buf[:] = bytes(12 << 20)")
        died = eventually(lambda: ended(gateway, session["id"]), "the kernel is dead", 120)
        assert died["reason"] == (
            "signal(7): mapped memory without space behind it; shared memory lies in /dev/shm, which has 16 MiB (limits.shm_bytes)"
        ), died
    assert gateway.http.post(f"api/kernels/{session['id']}/restart").status_code == 200
    with Channels(gateway, session["id"]) as client:
        assert client.run("import os; print(os.listdir('/dev/shm'))").text() == "[]\n"


def test_a_cell_that_ignores_interrupts_is_stopped(gateway, neighbour):
    made = gateway.session()["id"]
    marker = f"deaf-in-{made}"
    with Channels(gateway, made) as client:
        child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()', '{marker}'])"
        code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass"
        client.submit(f"{child}\n{code}")
        client.until(lambda m: m["msg_type"] == "stream" and "deaf" in m["content"]["text"])
        # Under gVisor the host sees nothing of it at any time.
        assert gateway.level == "gvisor" or having_argument(marker)
        assert gateway.http.post(f"api/kernels/{made}/interrupt").status_code == 204
        started = time.monotonic()
        gateway.end(made)
        assert time.monotonic() - started < 60
    assert not having_argument(marker)


def test_code_that_kills_or_stops_its_shim_harms_its_own_session_alone(gateway, neighbour):
    # Only gVisor lets it; elsewhere the session is as it was.
    for name in ("SIGKILL", "SIGSTOP"):
        made = gateway.session()["id"]
        with Channels(gateway, made) as client:
            client.run(f"import os, signal, threading; attack = threading.Timer(0.2, os.kill, (1, signal.{name})); attack.start()")
            if gateway.level != "gvisor":
                assert client.run("attack.join(); print('here')").text() == "here\n"
            elif name == "SIGKILL":
                eventually(lambda: ended(gateway, made), "the sandbox is dead", 60)
                assert [line for line in warnings(gateway) if made in line], "its end had not been requested"
            else:
                eventually(lambda: is_silent(client), "nothing is answered any more", 60)
        gateway.end(made)
        assert gateway.http.get(f"v1/sessions/{made}").status_code == 404


def is_silent(client):
    """Whether a request gets no answer for a while."""
    try:
        client.request("kernel_info_request", {}, timeout=5)
    except AssertionError:
        return True
    return False


def test_an_end_that_was_asked_for_is_no_warning(gateway):
    made = gateway.session()["id"]
    gateway.end(made)
    assert not [line for line in warnings(gateway) if made in line]


def warnings(gateway):
    """The lines of the gateway's log that an operator should read."""
    return [line for line in gateway.log.read_text().splitlines() if " WARN " in line or " ERROR " in line]


def test_a_running_execution_is_limited_across_gateways(gateway):
    """The limit counts from the execution's begin, however many gateways there were."""
    made = gateway.session("plain", limits={"execution_ms": 20_000})["id"]
    with Channels(gateway, made) as client:
        client.submit("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.1)")
        client.until(lambda m: m["msg_type"] == "stream")
    started = time.monotonic()
    ended = False
    while not ended and time.monotonic() - started < 60:
        gateway.kill()
        gateway.start()
        deadline = time.monotonic() + 8
        while not ended and time.monotonic() < deadline:
            ended = gateway.show(made)["state"] == "idle"
    assert ended, "each gateway began to count anew"
    gateway.end(made)


def test_a_lifetime_that_passed_without_a_gateway_is_over(gateway):
    made = gateway.session("plain", lifetime_s=8)
    gateway.kill()
    expires = datetime.fromisoformat(made["expires"].replace("Z", "+00:00"))
    eventually(lambda: datetime.now(UTC) > expires, "the lifetime is over", 30)
    gateway.start()
    eventually(lambda: ended(gateway, made["id"]), "the session is ended", 30)


def test_nothing_that_was_left_running_outlives_the_session(gateway):
    made = gateway.session()["id"]
    marker = f"left-by-{made}"
    with Channels(gateway, made) as client:
        daemon = f"""
import os, subprocess, sys
subprocess.Popen(["setsid", "nohup", sys.executable, "-c", "import signal; signal.pause()", "{marker}"], stdin=subprocess.DEVNULL)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execv(sys.executable, [sys.executable, "-c", "import signal; signal.pause()", "{marker}"])
os.wait()
"""
        assert client.run(daemon).content["status"] == "ok"
        inside = "import glob; print(sum(MARK in open(f, 'rb').read() for f in glob.glob('/proc/[0-9]*/cmdline')))"
        count = f"MARK = {marker.encode()!r}; {inside}"
        eventually(lambda: int(client.run(count).text()) >= 2, "both daemons run")
    gateway.end(made)
    assert not having_argument(marker)


def test_kernels_outlive_the_gateway_at_every_level(gateway):
    made = gateway.session()["id"]
    with Channels(gateway, made) as client:
        client.run("kept = 'still here'")
    gateway.kill()
    gateway.start()
    eventually(lambda: gateway.show(made)["state"] == "idle", "the kernel was taken over", 60)
    with Channels(gateway, made) as client:
        assert client.run("print(kept)").text() == "still here\n"
    gateway.end(made)


def test_the_next_session_sees_nothing_of_the_last(gateway):
    first = gateway.session(secrets={"API_KEY": "canary-of-the-first"})["id"]
    with Channels(gateway, first) as client:
        write = "import os; [open(os.path.join(d, 'left'), 'w').write('x') for d in ('/session', '/tmp', '/dev/shm')]; print(os.environ['API_KEY'])"
        assert client.run(write).text() == "canary-of-the-first\n"
    gateway.end(first)
    second = gateway.session()["id"]
    with Channels(gateway, second) as client:
        look = "import os; print([d for d in ('/session', '/tmp', '/dev/shm') if 'left' in os.listdir(d)], os.environ.get('API_KEY'))"
        assert client.run(look).text() == "[] None\n"
    gateway.end(second)


def ends_and_leaves_nothing(gateway):
    """Ctrl-C; then it is started again, because other tests need it."""
    logs = gateway.directory / "data" / "kernels"
    gateway.process.send_signal(signal.SIGINT)
    assert gateway.process.wait(60) == 0
    try:
        assert not list(logs.glob("*"))
        assert not list((logs.parent / "files").glob("*"))
        eventually(lambda: not left_by(logs.parent), lambda: f"left behind: {left_by(logs.parent)}")
    finally:
        gateway.process.stdout.close()
        gateway.start()


def end_all(gateway):
    for made in gateway.http.get("v1/sessions").json()["sessions"]:
        gateway.end(made["id"])
    eventually(lambda: not gateway.http.get("v1/sessions").json()["sessions"], "no session is left")


def test_a_kill_while_sandboxes_are_made_leaves_none_of_them(gateway):
    """The sooner the kill, the less is written down of them: the next gateway finds only what is."""
    run = Path(os.fsdecode((gateway.directory / "data" / "run-dir").read_bytes()))

    def start():
        with contextlib.suppress(httpx.HTTPError):
            gateway.session()

    for _ in range(4):
        end_all(gateway)
        before = set(entries(run))
        starts = [threading.Thread(target=start) for _ in range(4)]
        for each in starts:
            each.start()
        eventually(lambda: set(entries(run)) - before, "a sandbox is being made")
        gateway.kill()
        for each in starts:
            each.join()
        gateway.start()
    end_all(gateway)
    ends_and_leaves_nothing(gateway)


def test_after_all_sessions_nothing_is_left(gateway):
    """Processes, cgroups, directories of sandboxes: as many as the pool holds."""
    end_all(gateway)
    pools = gateway.http.get("v1/pools").json()["pools"]
    waiting = sum(pool["max"] for pool in pools)
    logs = gateway.directory / "data" / "kernels"
    eventually(lambda: len(list(logs.glob("*"))) <= waiting, "no logs but those of pooled kernels are left")
    ends_and_leaves_nothing(gateway)