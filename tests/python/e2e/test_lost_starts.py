"""Runs whose session was starting when gateway and sandbox were killed: each is begun again, and its code runs once."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from leftovers import end_processes, lifetimes
from servers import Himalia
from waiting import eventually

# The first sandbox never calls its gateway.
SHIM = """\
#!/bin/sh
if [ "$1" != --version ] && mkdir {held} 2>/dev/null; then exec sleep 1000; fi
exec {shim} "$@"
"""
MAIN = """\
def main(path):
    with open(path, "a") as file:
        file.write("ran\\n")
    return {"path": path}
"""
MANIFEST = {
    "name": "note",
    "version": "1.0.0",
    "kind": "code",
    "description": "Adds a line to a file.",
    "inputs": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "outputs": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
OVER = ("succeeded", "failed", "cancelled")


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway whose first sandbox does not start."""
    shim = tmp_path / "shim"
    real = Path(os.environ["HIMALIA_BIN"]).with_name("himalia-shim")
    shim.write_text(SHIM.format(held=tmp_path / "held", shim=real))
    shim.chmod(0o755)
    own = Himalia(tmp_path / "gateway", "--shim", str(shim))
    body = {"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}
    assert own.http.post("v1/skills", json=body).status_code == 201
    yield own
    own.stop()


def of_schedule(server, path):
    """A run of a schedule: what begins it, and what came of it."""
    new = {"name": "yearly", "cron": "0 0 1 1 *", "target": {"skill": "note"}, "inputs": {"path": path}}
    assert server.http.post("v1/schedules", json=new).status_code == 201
    runs = lambda: server.http.get("v1/runs?schedule=yearly").json()["runs"]  # noqa: E731
    return lambda: server.http.post("v1/schedules/yearly/runs", json={}), runs


def of_workflow(server, path):
    """A run of a workflow of one step."""
    step = {"id": "note", "skill": {"name": "note"}, "inputs": {"path": {"value": path}}}
    definition = {"name": "one", "version": "1.0.0", "description": "d", "inputs": {"type": "object"}, "steps": [step]}
    assert server.http.post("v1/workflows", json={"definition": definition}).status_code == 201
    runs = lambda: server.http.get("v1/runs?workflow=one").json()["runs"]  # noqa: E731
    return lambda: server.http.post("v1/workflows/one/runs", json={}), runs


@pytest.mark.parametrize("sandbox", ["lives", "ends"])
@pytest.mark.parametrize("kind", [of_schedule, of_workflow])
def test_a_run_whose_start_was_lost_is_begun_again(gateway, tmp_path, kind, sandbox):
    path = tmp_path / "ran"
    begin, runs = kind(gateway, str(path))
    reply = begin()
    assert reply.status_code in (201, 202), reply.text
    lose_the_start(gateway, sandbox)
    [run] = eventually(lambda: (found := runs()) and found[0]["status"] in OVER and found, lambda: f"{runs()}", 150)
    assert run["status"] == "succeeded", json.dumps(run)
    assert path.read_text() == "ran\n"


@pytest.mark.parametrize("sandbox", ["lives", "ends"])
def test_a_request_with_a_key_whose_start_was_lost_is_one_run(gateway, tmp_path, sandbox):
    path = tmp_path / "ran"
    body = {"inputs": {"path": str(path)}}

    def run():
        return gateway.http.post("v1/skills/note/runs", json=body, headers={"Idempotency-Key": "k"}, timeout=150)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(run)
        lose_the_start(gateway, sandbox)
        with pytest.raises(httpx.HTTPError):
            first.result()

    def done():
        reply = run()
        return reply.status_code == 200 and reply.json()

    done = eventually(done, lambda: run().text, 150)
    assert (done["status"], done["outputs"]) == ("succeeded", {"path": str(path)})
    assert run().json()["id"] == done["id"]
    assert path.read_text() == "ran\n"


def lose_the_start(gateway, sandbox):
    """Kill the gateway while its first sandbox starts, and perhaps the sandbox; start the next gateway."""
    data = gateway.directory / "data"
    eventually(lambda: lifetimes(data)[0], "the session has a row", 60)
    gateway.kill()
    if sandbox == "ends":
        end_processes(data)
    gateway.start()
