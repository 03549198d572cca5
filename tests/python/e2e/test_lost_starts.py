"""Runs whose session was starting when gateway and sandbox were killed: each is begun again, and its code runs once."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from leftovers import end_processes
from servers import Himalia
from waiting import eventually

# The first process of a kernel comes to no sockets.
PROGRAM = """\
import os, sys, time
held = os.environ["HELD"]
try:
    open(held, "x").close()
except FileExistsError:
    os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", *sys.argv[1:]])
with open(held + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(held + ".new", held + ".pid")
time.sleep(600)
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
OVER = ("succeeded", "failed")


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway whose first kernel does not come up."""
    specs = tmp_path / "specs" / "held"
    specs.mkdir(parents=True)
    (specs / "program.py").write_text(PROGRAM)
    argv = [str(kernel_python), str(specs / "program.py"), "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Held", "language": "python", "env": {"HELD": str(tmp_path / "held")}}
    (specs / "kernel.json").write_text(json.dumps(spec))
    own = Himalia(tmp_path / "gateway", "--kernelspec-dir", str(specs.parent))
    body = {"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}
    assert own.http.post("v1/skills", json=body).status_code == 201
    yield own
    own.stop()


def of_schedule(server, path):
    """A run of a schedule: what begins it, and what came of it."""
    new = {"name": "yearly", "cron": "0 0 1 1 *", "target": {"skill": "note"}, "inputs": {"path": path}, "template": "held"}
    assert server.http.post("v1/schedules", json=new).status_code == 201
    runs = lambda: server.http.get("v1/schedules/yearly/runs").json()["runs"]  # noqa: E731
    return lambda: server.http.post("v1/schedules/yearly/runs", json={}), runs


def of_workflow(server, path):
    """A run of a workflow of one step."""
    step = {"id": "note", "skill": {"name": "note"}, "template": "held", "inputs": {"path": {"value": path}}}
    definition = {"name": "one", "version": "1.0.0", "description": "d", "inputs": {"type": "object"}, "steps": [step]}
    assert server.http.post("v1/workflows", json={"definition": definition}).status_code == 201
    runs = lambda: server.http.get("v1/workflow-runs?workflow=one").json()["runs"]  # noqa: E731
    return lambda: server.http.post("v1/workflows/one/runs", json={}), runs


@pytest.mark.parametrize("killed", ["process", "sandbox"])
@pytest.mark.parametrize("kind", [of_schedule, of_workflow])
def test_a_run_whose_start_was_lost_is_begun_again(gateway, tmp_path, kind, killed):
    path = tmp_path / "ran"
    begin, runs = kind(gateway, str(path))
    reply = begin()
    assert reply.status_code in (201, 202), reply.text
    lose_the_start(gateway, tmp_path / "held", killed)
    [run] = eventually(lambda: (found := runs()) and found[0]["status"] in OVER and found, lambda: f"{runs()}", 150)
    assert run["status"] == "succeeded", run
    assert path.read_text() == "ran\n"


@pytest.mark.parametrize("killed", ["process", "sandbox"])
def test_a_request_with_a_key_whose_start_was_lost_is_one_run(gateway, tmp_path, killed):
    path = tmp_path / "ran"
    body = {"inputs": {"path": str(path)}, "template": "held"}

    def run():
        return gateway.http.post("v1/skills/note/runs", json=body, headers={"Idempotency-Key": "k"}, timeout=150)

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(run)
        lose_the_start(gateway, tmp_path / "held", killed)
        with pytest.raises(httpx.HTTPError):
            first.result()

    def done():
        reply = run()
        return reply.status_code == 200 and reply.json()

    done = eventually(done, lambda: run().text, 150)
    assert (done["status"], done["outputs"]) == ("succeeded", {"path": str(path)})
    assert run().json()["id"] == done["id"]
    assert path.read_text() == "ran\n"


def lose_the_start(gateway, held, killed):
    """Kill the gateway while it starts a kernel, and the process of the kernel, or its sandbox; start the next gateway."""
    eventually(held.with_suffix(".pid").exists, "the kernel is starting", 60)
    gateway.kill()
    if killed == "sandbox":
        end_processes(gateway.directory / "data")
    gateway.start()
    if killed == "process":
        os.kill(int(held.with_suffix(".pid").read_text()), signal.SIGKILL)
