"""Kernels that die, hang or leave children: every client learns of it, no other kernel is affected, nothing is left."""

import os
import signal
import time
import uuid

import pytest
from channels import Channels
from files import beneath
from processes import alive, having_in_environment, parent
from waiting import eventually

DEATHS = {
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "segmentation fault": "import ctypes; ctypes.string_at(0)",
    "exit code": "import os; os._exit(3)",
}


def state(server, kernel_id):
    """The kernel's state over REST."""
    return server.http.get(f"api/kernels/{kernel_id}").json()["execution_state"]


@pytest.mark.parametrize("how", DEATHS)
def test_a_kernel_that_dies_is_restarted_and_its_clients_are_told(shared, kernel_id, how):
    with Channels(shared, kernel_id) as client, Channels(shared, kernel_id, "legacy") as watcher:
        first = int(client.run("import os; lost = 1; print(os.getpid())").text())
        client.submit("print('last words', flush=True); " + DEATHS[how])
        for side in (client, watcher):
            told = side.until(
                lambda m: m["msg_type"] == "status" and m["content"]["execution_state"] == "restarting", 20
            )
            assert any(m["msg_type"] == "stream" and "last words" in m["content"]["text"] for m in told)
        eventually(lambda: state(shared, kernel_id) == "idle", "the kernel is there again")
        assert not alive(first)
        done = client.run("lost")
        assert (done.content["ename"], done.content["execution_count"]) == ("NameError", 1)


def test_a_request_during_the_restart_waits_for_the_new_kernel(shared, kernel_id):
    """As it does in the sockets of a kernel without a gateway: never refused, never forgotten."""
    with Channels(shared, kernel_id) as client:
        client.run("1")
        client.submit(DEATHS["killed"])
        client.until(lambda m: m["msg_type"] == "status" and m["content"]["execution_state"] == "restarting", 20)
        assert client.run("2", timeout=30).content["execution_count"] == 1


def test_others_do_not_notice_a_death(shared, kernel_id):
    victim = shared.start_kernel()
    with Channels(shared, kernel_id) as client, Channels(shared, victim) as doomed:
        msg_id = client.submit("import time\nfor n in range(30): print(n, flush=True); time.sleep(0.03)")
        doomed.submit(DEATHS["killed"])
        assert client.outcome(msg_id).text().split() == [str(n) for n in range(30)]
    shared.delete_kernel(victim)


def test_exit_ends_the_cell_and_not_the_kernel(shared, kernel_id):
    with Channels(shared, kernel_id) as client:
        client.run("kept = 7")
        client.submit("exit()")
        next_one = client.submit("print(kept)")
        client.until(lambda m: m["channel"] == "shell" and m["content"].get("ename") == "SystemExit")
        assert client.outcome(next_one).content["status"] in ("ok", "aborted")
        assert client.run("print(kept)").text() == "7\n"


def test_a_cell_that_kills_its_kernel_gets_an_error_reply(shared, kernel_id):
    with Channels(shared, kernel_id) as client:
        msg_id = client.submit(DEATHS["killed"])
        outcome = client.outcome(msg_id)
        assert (outcome.content["status"], outcome.content["ename"]) == ("error", "KernelDied")
        assert "signal(9)" in outcome.content["evalue"]
        assert client.run("1", timeout=30).content["status"] == "ok"


CHILDREN = """
import os, signal, subprocess, sys, time
sleep = "import signal as s, time; s.signal(s.SIGTERM, s.SIG_IGN); s.signal(s.SIGHUP, s.SIG_IGN); time.sleep(600)"
plain = subprocess.Popen([sys.executable, "-c", sleep])
session = subprocess.Popen([sys.executable, "-c", sleep], start_new_session=True)
if os.fork() == 0:  # a daemon: its parent ends at once
    os.setsid()
    subprocess.Popen([sys.executable, "-c", sleep], start_new_session=True)
    os._exit(0)
print("ready", flush=True)
"""


@pytest.mark.parametrize("end", ["delete", "kill", "restart"])
def test_children_of_a_kernel_end_with_it(shared, end):
    mark = uuid.uuid4().hex
    kernel_id = shared.start_kernel(env={"KERNEL_MARK": mark})
    with Channels(shared, kernel_id) as client:
        kernel = int(client.run("import os; print(os.getpid())").text())
        assert "ready" in client.run(CHILDREN).text()
        before = eventually(
            lambda: len(found := having_in_environment("KERNEL_MARK", mark)) >= 4 and found, "the children run"
        )
        if end == "delete":
            shared.delete_kernel(kernel_id)
        elif end == "restart":
            assert shared.http.post(f"api/kernels/{kernel_id}/restart").status_code == 200
        else:
            os.kill(kernel, signal.SIGKILL)
        eventually(lambda: not any(alive(pid) for pid in before), "the old processes are gone", 20)
    shared.delete_kernel(kernel_id)
    eventually(lambda: not having_in_environment("KERNEL_MARK", mark), "nothing stays behind")


def test_a_kernel_and_its_branch_end_with_the_shim(shared):
    session = shared.http.post("v1/sessions", json={}).json()["id"]
    with Channels(shared, session) as client:
        kernel, shim = map(int, client.run("import os; print(os.getpid(), os.getppid())").text().split())
    reply = shared.http.post(f"v1/sessions/{session}/fork", json={"count": 1, "policy": "report", "files": "share"})
    assert reply.status_code in (200, 201), reply.text
    fork = reply.json()["branches"][0]["session"]["id"]
    with Channels(shared, fork) as client:
        branch = int(client.run("print(os.getpid())").text())
    assert parent(branch) == shim
    os.kill(shim, signal.SIGKILL)
    eventually(lambda: not alive(kernel) and not alive(branch), "both have ended", 30)
    # What is left of them: a session that could continue in a new sandbox, and a branch that can be read.
    for left in (session, fork):
        shared.http.delete(f"v1/sessions/{left}")


STUBBORN = """
import os, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True: pass
"""


def test_a_kernel_that_ignores_interrupts_answers_control_and_can_be_ended(shared):
    kernel_id = shared.start_kernel()
    with Channels(shared, kernel_id) as client:
        client.submit(STUBBORN)
        kernel = int(client.until(lambda m: m["msg_type"] == "stream")[-1]["content"]["text"])
        started = time.monotonic()
        shared.interrupt(kernel_id)
        assert time.monotonic() - started < 1
        question = client.send("kernel_info_request", {}, "control")
        assert client.until(lambda m: m["channel"] == "control")[-1]["parent_header"]["msg_id"] == question
    started = time.monotonic()
    shared.delete_kernel(kernel_id)
    assert time.monotonic() - started < 15
    assert not alive(kernel)


def test_a_stopped_kernel_can_be_ended(shared):
    """SIGSTOP: a kernel that never answers anything."""
    kernel_id = shared.start_kernel()
    with Channels(shared, kernel_id) as client:
        kernel = int(client.run("import os; print(os.getpid())").text())
    os.kill(kernel, signal.SIGSTOP)
    shared.delete_kernel(kernel_id)
    assert not alive(kernel)


def test_a_deleted_kernel_is_said_to_be_dead_and_its_sockets_close(shared):
    kernel_id = shared.start_kernel()
    with Channels(shared, kernel_id) as client:
        client.run("1")
        shared.delete_kernel(kernel_id)
        client.until(lambda m: m["msg_type"] == "status" and m["content"]["execution_state"] == "dead", 10)


def test_starts_in_flight_count_against_the_limit(tmp_path, kernel_python):
    from concurrent.futures import ThreadPoolExecutor

    from servers import Himalia

    gateway = Himalia(tmp_path / "gateway", "--max-kernels", "3")
    try:
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: gateway.http.post("api/kernels", json={}), range(8)))
        assert sorted(reply.status_code for reply in replies) == [201] * 3 + [403] * 5
        assert {r.json()["reason"] for r in replies if r.status_code == 403} == {"Resource Limit"}
        made = [reply.json()["id"] for reply in replies if reply.status_code == 201]
        gateway.delete_kernel(made[0])
        assert gateway.http.post("api/kernels", json={}).status_code == 201
    finally:
        gateway.stop()


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path, kernel_python):
    import json

    from servers import Himalia

    specs = tmp_path / "specs"
    broken = {
        "no-program": ["/no/such/program", "-f", "{connection_file}"],
        "ends-at-once": [
            kernel_python,
            "-c",
            "import sys; sys.exit('this kernel cannot start: 42')",
            "{connection_file}",
        ],
    }
    for name, argv in broken.items():
        (specs / name).mkdir(parents=True)
        (specs / name / "kernel.json").write_text(
            json.dumps({"argv": argv, "display_name": name, "language": "python"})
        )
    (specs / "no-json").mkdir()
    (specs / "no-json" / "kernel.json").write_text("{")
    gateway = Himalia(tmp_path / "gateway", "--kernelspec-dir", str(specs))
    try:
        listed = gateway.http.get("api/kernelspecs")
        assert listed.status_code == 200 and "python3" in listed.json()["kernelspecs"]
        gateway.delete_kernel(gateway.start_kernel())  # the first start makes what stays
        logs = gateway.directory / "data" / "kernels"
        eventually(lambda: not list(logs.iterdir()), "the log of the deleted kernel is removed")
        files = files_of(gateway)
        for name in broken:
            reply = gateway.http.post("api/kernels", json={"name": name})
            if reply.status_code == 201:  # it was up, and died before it was ready
                kernel_id = reply.json()["id"]
                eventually(
                    lambda kernel_id=kernel_id: (
                        gateway.http.get(f"api/kernels/{kernel_id}").status_code == 404
                        or state(gateway, kernel_id) == "dead"
                    ),
                    f"{name} is dead",
                    30,
                )
                model = gateway.http.get(f"api/kernels/{kernel_id}").json()
                assert name == "ends-at-once" and "42" in json.dumps(model)
                gateway.delete_kernel(kernel_id)
            else:
                assert reply.status_code in (400, 500) and "\n" not in reply.json()["message"]
        assert gateway.http.get("api/kernels").json() == []
        eventually(lambda: files_of(gateway) == files, "the files are those of before")
    finally:
        gateway.stop()


def files_of(gateway):
    """Names of all files in the gateway's data directory, without the logs that grow."""
    data = gateway.directory / "data"
    return {str(path.relative_to(data)) for path in beneath(data) if path.suffix not in (".db-wal", ".db-shm")}
