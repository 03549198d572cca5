"""Any replica serves any client: real clients of a replica that is not the owner of their session."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import events
import pytest
from agents import agent, run, text
from channels import Channels
from replicas import Replicas
from waiting import eventually

SUPPORT = Path(__file__).parent.parent / "support"
NOTEBOOK = """
import json, sys
import nbformat
from nbformat.v4 import new_code_cell, new_notebook
nbformat.write(new_notebook(cells=[new_code_cell("6 * 7")], metadata={"kernelspec": {"name": "python3", "display_name": "x"}}), sys.argv[1])
"""


@pytest.fixture(scope="module")
def replicas(tmp_path_factory, postgres, kernel_python):
    """Three gateways that relay."""
    started = Replicas(tmp_path_factory.mktemp("relay"), postgres, 3, relay=True)
    yield started
    started.stop()


@pytest.fixture
def owner(replicas):
    return replicas[0]


@pytest.fixture
def near(replicas):
    """The replica of the client."""
    return replicas[1]


@pytest.fixture
def kernel_id(owner):
    kernel = owner.start_kernel()
    yield kernel
    owner.http.delete(f"api/kernels/{kernel}")


@pytest.mark.parametrize("framing", ["v1", "legacy"])
def test_cells_run_through_another_replica(near, kernel_id, framing):
    with Channels(near, kernel_id, framing) as client:
        assert client.run("x = 6 * 7\nprint('ünïcödé €')").text() == "ünïcödé €\n"
        done = client.run("x")
        assert done.of("execute_result")[0]["content"]["data"]["text/plain"] == "42"
        hangs = client.submit("import time\nprint('begun', flush=True)\ntime.sleep(100)")
        client.until(lambda m: m["msg_type"] == "stream")
        near.interrupt(kernel_id)
        assert client.outcome(hangs).content["ename"] == "KeyboardInterrupt"


def test_a_client_that_returns_to_another_replica_misses_nothing(replicas, kernel_id):
    code = "import time\nfor n in range(60):\n    print('line', n, flush=True)\n    time.sleep(0.02)"
    client = Channels(replicas[1], kernel_id)
    msg_id = client.submit(code)
    seen = client.until(lambda m: m["msg_type"] == "stream")
    seen += client.cut()
    with Channels(replicas[2], kernel_id, session=client.session) as again:
        seen += again.outcome(msg_id).iopub
    printed = "".join(m["content"]["text"] for m in seen if m["msg_type"] == "stream")
    lines = printed.splitlines()
    assert [line for n, line in enumerate(lines) if line not in lines[:n]] == [f"line {n}" for n in range(60)]


def test_nbclient_works_where_a_load_balancer_sends_it(replicas, near, tmp_path):
    made = subprocess.run([sys.executable, "-c", NOTEBOOK, tmp_path / "in.ipynb"], check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with balanced(replicas) as url:
        # The token is in the path: this client sends none with its WebSocket.
        prefix = f"/t/{near.token}/api"
        settings = {
            "JUPYTER_GATEWAY_URL": url.rstrip("/"),
            "JUPYTER_GATEWAY_KERNELS_ENDPOINT": f"{prefix}/kernels",
            "JUPYTER_GATEWAY_KERNELSPECS_ENDPOINT": f"{prefix}/kernelspecs",
        }
        done = subprocess.run(
            [sys.executable, SUPPORT / "nbclient_run.py", tmp_path / "in.ipynb", tmp_path / "out.ipynb"],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "42" in (tmp_path / "out.ipynb").read_text()


class balanced:
    """A load balancer that sends each connection to the next replica, and knows nothing of sessions."""

    def __init__(self, replicas):
        self.program = SUPPORT / "balancer.py"
        self.targets = [f"{r.http.base_url.host}:{r.http.base_url.port}" for r in replicas.all]

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, self.program, *self.targets], stdout=subprocess.PIPE, text=True)
        return f"http://{self.process.stdout.readline().strip()}/"

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def test_a_file_of_50_mb_goes_both_ways(near, kernel_id):
    data = hashlib.sha256(b"relay").digest() * (50 * 1024 * 1024 // 32)
    path = f"v1/sessions/{kernel_id}/files/large.bin"
    put = near.http.put(path, content=data, timeout=120)
    assert put.status_code in (200, 201), put.text
    got = near.http.get(path, timeout=120)
    assert got.status_code == 200 and hashlib.sha256(got.content).digest() == hashlib.sha256(data).digest()


def test_executions_by_name_and_their_events(replicas, owner, near):
    made = owner.http.put("v1/sessions/eda", json={"template": "python3"})
    assert made.status_code == 201, made.text
    try:
        assert near.http.put("v1/sessions/eda", json={"template": "python3"}).status_code == 200
        done = near.http.post("v1/sessions/eda/executions", json={"code": "print('hello')\n6 * 7"}, timeout=60)
        assert done.status_code == 200 and done.json()["status"] == "ok", done.text
        shown = replicas[2].http.get(f"v1/executions/{done.json()['id']}")
        assert shown.status_code == 200, shown.text
        log = events.follow(near, "eda", 0, lambda event: event["event"] == "execution_ended" or "hello" in str(event.get("content")))
        assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
        names = [one.get("name") for one in near.http.get("v1/sessions").json()["sessions"]]
        assert names.count("eda") == 1
    finally:
        assert near.http.delete("v1/sessions/eda").status_code == 204
    assert near.http.get("v1/sessions/eda").status_code in (404, 410)


def test_jupyter_sessions_and_lists_are_the_same_everywhere(replicas, near):
    body = {"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    made = replicas[0].http.post("api/sessions", json=body, timeout=60).json()
    assert near.http.post("api/sessions", json=body, timeout=60).json()["id"] == made["id"]
    for replica in replicas.all:
        assert [one["id"] for one in replica.http.get("api/sessions").json()] == [made["id"]]
        assert made["kernel"]["id"] in [one["id"] for one in replica.http.get("api/kernels").json()]
    path = f"api/sessions/{made['id']}"
    assert near.http.patch(path, json={"path": "b.ipynb"}).json()["path"] == "b.ipynb"
    assert replicas[2].http.delete(path).status_code == 204
    assert near.http.get("api/sessions").json() == []


def test_an_mcp_client_works_on_a_session_of_another_replica(owner, near):
    async def analysis():
        async with agent(owner) as client:
            assert not (await client.call_tool("session", {"op": "create", "name": "agents"})).is_error
        async with agent(near) as client:
            assert text(await client.call_tool("session", {"op": "list"})).count("agents: ") == 1
            done = await client.call_tool("execute", {"session": "agents", "code": "x = 41\nprint(x + 1)"})
            assert not done.is_error and "42" in text(done)
            variables = await client.call_tool("inspect_variables", {"session": "agents"})
            assert "x" in text(variables)
            assert not (await client.call_tool("session", {"op": "close", "session": "agents"})).is_error

    run(analysis)


def test_a_dead_owner_is_said_and_lists_name_it(tmp_path, postgres, kernel_python):
    replicas = Replicas(tmp_path, postgres, 2, lease="30s", relay=True)
    try:
        kernel = replicas[0].start_kernel()
        near = replicas[1]
        assert near.http.get(f"api/kernels/{kernel}").status_code == 200
        client = Channels(near, kernel)
        assert client.run("6 * 7").content["status"] == "ok"
        replicas[0].kill()
        refused = near.http.get(f"v1/sessions/{kernel}", timeout=60)
        assert refused.status_code == 503 and "Retry-After" in refused.headers, refused.text
        listed = near.http.get("v1/sessions", timeout=60)
        assert listed.headers["X-Himalia-Unanswered"] == "r0" and listed.json()["unanswered"] == ["r0"]
        assert near.http.get("api/kernels", timeout=60).status_code == 503

        async def listing():
            async with agent(near) as client:
                return text(await client.call_tool("session", {"op": "list"}))

        assert "the sessions of replicas that do not respond are missing: r0" in run(listing)
        # It comes back, and the session with it: at another address, which the others learn from the store.
        replicas[0].start()
        eventually(lambda: near.http.get(f"api/kernels/{kernel}", timeout=60).status_code == 200, "the owner answers", 60)
        with Channels(near, kernel) as again:
            assert again.run("6 * 7").content["status"] == "ok"
        client.socket.close()
    finally:
        replicas.stop()
