"""Outages of the tests' own cluster: its API server is killed, and a node loses its power."""

import json
import subprocess
from pathlib import Path

import pytest
from pods import Gateway, kubectl
from waiting import eventually

pytestmark = pytest.mark.timeout(420)
LIB = Path(__file__).resolve().parents[2] / "kubernetes" / "lib.sh"


def cluster(command):
    """A command of the scripts that made the cluster."""
    # What they start outlives the shell.
    subprocess.run(["bash", "-c", f". {LIB}; {command}"], check=True, timeout=120, stdin=subprocess.DEVNULL)


def test_sessions_run_while_the_api_server_is_away_and_new_ones_start_afterwards(tmp_path):
    gateway = Gateway(tmp_path)
    session = gateway.session()
    cell = gateway.submit(session, "import time\nfor n in range(50): time.sleep(0.1)\nprint('done')")
    cluster("stop cp apiserver KILL")
    try:
        assert "done" in json.dumps(gateway.wait(cell))
        reply = gateway.http.post("v1/sessions", json={"template": "python3"})
        assert reply.status_code == 503, reply.text
    finally:
        cluster("start cp apiserver")
    eventually(lambda: "ok" in kubectl("get", "--raw", "/readyz", check=False), "the API server is back", 60)
    assert "2" in json.dumps(gateway.run(gateway.session(), "print(1 + 1)"))
    gateway.stop()


def test_the_loss_of_a_node_ends_its_sessions_with_the_cause_and_others_live(tmp_path):
    gateway = Gateway(
        tmp_path,
        kubernetes={"node_grace": "5s"},
        **{
            "kubernetes.runtimes.one": {"node_selector": {"kubernetes.io/hostname": "n1"}},
            "kubernetes.runtimes.two": {"node_selector": {"kubernetes.io/hostname": "n2"}},
            "templates.one": {"kernelspec": "python3", "runtime": "one"},
            "templates.two": {"kernelspec": "python3", "runtime": "two"},
        },
    )
    lives, lost = gateway.session(template="one"), gateway.session(template="two")
    gateway.run(lives, "kept = 1")
    gateway.run(lost, "kept = 1")
    cell = gateway.submit(lost, "import time; time.sleep(600)")
    cluster("ours n2 | xargs kill -KILL")
    result = gateway.wait(cell, 150)
    assert result["status"] != "ok", result
    eventually(lambda: "node_lost" in gateway.log.read_text() + json.dumps(gateway.of(lost)), "the cause is said", 60)
    assert "1" in json.dumps(gateway.run(lives, "print(kept)"))
    gateway.stop()
