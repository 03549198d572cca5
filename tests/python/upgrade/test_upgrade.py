"""An upgrade: sandboxes, sessions and logs of one gateway under the next one.

`HIMALIA_OLD_BIN` names the `himalia` of an earlier version, beside its shim and its jail (`make test-upgrade OLD=COMMIT` builds them). By
default both gateways are of this build.
"""

import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from levels import AtLevel
from processes import having_argument
from waiting import eventually

# Measured anew at each look, or changed by the upgrade itself.
VOLATILE = {"memory_used_bytes", "connections", "last_activity", "state", "start_ms"}
LINES = 400
THIS = os.environ["HIMALIA_BIN"]
FORMER = os.environ.get("HIMALIA_OLD_BIN", THIS)
# How a development build marked its database.
DEVELOPMENT = 0x4849_4D41


class Upgraded(AtLevel):
    """A gateway at the level `namespaces` that is started as the former build, and as this one after `upgrade`."""

    def __init__(self, directory):
        self.binary = FORMER
        super().__init__(directory, "namespaces", "--retention", "1h")

    def command(self):
        return [self.binary]

    def upgrade(self):
        """kill -9 of the former build, and a start of this one on the same data."""
        self.kill()
        self.binary = THIS
        self.start()


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway of the former build."""
    if FORMER != THIS:
        # It has a Python environment of its own, since its lock file may differ.
        subprocess.run([FORMER, "env", "build"], check=True, stdout=subprocess.PIPE, timeout=600)
    own = Upgraded(tmp_path / "gateway")
    yield own
    own.stop()


def run(gateway, session, code, **more):
    """Run code and return its result."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def value(result):
    """What the last expression was."""
    assert result["status"] == "ok", result
    return result["outputs"][0]["data"]["text/plain"]


def attributes(session):
    """What an upgrade must not change of a session."""
    return {name: found for name, found in session.items() if name not in VOLATILE}


def output(gateway, path):
    """All text of an execution, page by page."""
    text, cursor = "", 0
    while cursor is not None:
        page = gateway.http.get(f"{path}/output", params={"cursor": cursor, "limit": 5000}).json()
        text, cursor = text + page["text"], page["next"]
    return text


def fork(gateway, session):
    """The id of a new branch."""
    reply = gateway.http.post(f"v1/sessions/{session}/fork", json={"count": 1, "policy": "report"})
    assert reply.status_code == 201, reply.text
    return reply.json()["branches"][0]["session"]["id"]


def begin(gateway, session, code):
    """Run code in the background and return its path."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"background": True, "code": code})
    assert reply.status_code == 202, reply.text
    return reply.headers["location"].lstrip("/")


def lose_sandbox(gateway, session):
    """kill -9 of its shim, which takes all processes of the sandbox with it."""
    run(gateway, session, "open('mark-of-this-sandbox', 'w').close()")
    shims = [pid for pid in having_argument("himalia-shim") if Path(f"/proc/{pid}/root/session/mark-of-this-sandbox").exists()]
    os.kill(*shims, signal.SIGKILL)
    eventually(lambda: gateway.show(session)["state"] == "dead", "the session is dead", 60)


@pytest.mark.timeout(600)
def test_everything_of_the_former_build_is_there(gateway):
    named = gateway.session(name="eda", labels={"task": "eda"}, idle_timeout_s=3600)["id"]
    pid = value(run(gateway, named, "import os; kept = [1, 2, 3]; os.getpid()"))
    running = begin(gateway, named, f"import time\nfor n in range({LINES}):\n    print('line', n, flush=True); time.sleep(0.02)")
    eventually(lambda: "line 3" in gateway.http.get(running).json()["text"], "the cell prints", 60)

    jupyter = gateway.start_kernel()
    forked = gateway.session()["id"]
    run(gateway, forked, "x = 'of the session'")
    reply = gateway.http.post(f"v1/sessions/{forked}/kernels", json={})
    assert reply.status_code == 201, reply.text
    additional = reply.json()["id"]
    run(gateway, forked, "x = 'of the additional kernel'", kernel=additional)
    branch = fork(gateway, forked)
    run(gateway, branch, "x = 'of the branch'")
    claimed = gateway.session("pooled")["id"]
    run(gateway, claimed, "y = 7")
    lost = gateway.session("kept")["id"]
    run(gateway, lost, "open('data.csv', 'w').write('1,2')")
    ended = gateway.session(name="ended")["id"]
    last = run(gateway, ended, "print('to be read later')")
    gateway.end(ended)

    sessions = [named, forked, branch, claimed, lost]
    before = {session: attributes(gateway.show(session)) for session in sessions}
    gateway.upgrade()
    eventually(lambda: all(gateway.show(session)["state"] in ("idle", "busy") for session in sessions), "all are adopted", 60)
    after = {session: attributes(gateway.show(session)) for session in sessions}
    # This version may know more attributes.
    assert {session: {name: after[session].get(name) for name in found} for session, found in before.items()} == before
    assert gateway.http.get(f"api/kernels/{jupyter}").json()["execution_state"] in ("starting", "idle")

    # The cell that ran meanwhile: whole, and once.
    eventually(lambda: gateway.http.get(running).json()["status"] == "ok", "the cell ends", 60)
    assert output(gateway, running).splitlines() == [f"line {n}" for n in range(LINES)]
    # The same processes, with their variables.
    assert value(run(gateway, "eda", "kept, os.getpid()")) == f"([1, 2, 3], {pid})"
    assert value(run(gateway, forked, "x")) == "'of the session'"
    assert value(run(gateway, forked, "x", kernel=additional)) == "'of the additional kernel'"
    assert value(run(gateway, branch, "x")) == "'of the branch'"
    assert value(run(gateway, claimed, "y")) == "7"
    assert gateway.http.get("v1/sessions/eda/history").json()["history"][0]["code"].startswith("import os")

    # The shim of the former build takes this build's commands: interrupt, restart, fork.
    sleeping = begin(gateway, claimed, "import time; time.sleep(600)")
    eventually(lambda: gateway.http.get(sleeping).json()["status"] == "running", "the cell runs", 60)
    assert gateway.http.post(f"v1/sessions/{claimed}/interrupt").status_code == 204
    eventually(lambda: gateway.http.get(sleeping).json()["status"] == "interrupted", "the cell is interrupted", 60)
    assert gateway.http.post(f"v1/sessions/{claimed}/restart").json()["incarnation"] == 2
    assert value(run(gateway, claimed, "'y' in dir()")) == "False"
    assert value(run(gateway, fork(gateway, named), "kept")) == "[1, 2, 3]"

    # A session whose sandbox is lost continues in a sandbox of this build, with its files.
    lose_sandbox(gateway, lost)
    assert value(run(gateway, lost, "open('data.csv').read()")) == "'1,2'"

    # The ended session can be read as before.
    shown = gateway.show(ended)
    assert (shown["state"], shown["name"]) == ("ended", "ended")
    assert gateway.http.get(f"v1/executions/{last['id']}").json()["text"] == "to be read later\n"


def test_a_data_directory_of_a_development_build_is_refused(tmp_path):
    database = tmp_path / "himalia.db"
    with sqlite3.connect(database) as file:
        file.executescript(f"CREATE TABLE kernels (id TEXT); PRAGMA application_id = {DEVELOPMENT}; PRAGMA user_version = 22;")
    before = database.read_bytes()
    started = subprocess.run(
        [THIS, "serve", "--data-dir", tmp_path, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=60, check=False
    )
    assert started.returncode != 0
    for part in (str(database), "schema 22 of a development build", "schema 1 of version 0.1.0", "move the data directory away"):
        assert part in started.stderr, started.stderr
    assert database.read_bytes() == before
