"""A Docker engine that is stopped and started again while sessions live in its containers.

The engine has to be the tests' own: tests/docker/run.sh says so with `HIMALIA_TEST_OWN_ENGINE`.
"""

import subprocess

import pytest
from channels import Channels
from levels import ROOT, AtLevel
from waiting import eventually

pytestmark = pytest.mark.timeout(300)


def engine(*verb):
    """tests/docker/engine.sh. What it starts keeps none of our descriptors."""
    done = subprocess.run([ROOT / "tests/docker/engine.sh", *verb], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=200, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture
def own(tmp_path):
    """A gateway of its own: the engine's end is its session's."""
    made = AtLevel(tmp_path, "container", "--retention", "1h")
    try:
        yield made
    finally:
        engine("up")
        made.stop()


def works(gateway):
    """A session can be started, used and ended."""
    made = gateway.session()["id"]
    with Channels(gateway, made) as client:
        assert client.run("print(6 * 7)").text() == "42\n"
    gateway.end(made)


def test_sessions_live_on_where_the_engine_lets_its_containers(own):
    session = own.session()["id"]
    with Channels(own, session) as client:
        client.run("kept = 41")
        engine("down", "live-restore")
        # No byte of an execution goes through the engine.
        assert client.run("kept += 1; print(kept)").text() == "42\n"
        reply = own.http.post("v1/sessions", json={"template": "plain"})
        assert (reply.status_code, reply.json()["retryable"]) == (503, True) and "engine does not answer" in reply.text, reply.text
        # The gateway is started again meanwhile, as with a host's packages upgraded in one step.
        own.kill()
        engine("up")
        own.start()
        eventually(lambda: own.show(session)["state"] == "idle", "the kernel was taken over", 60)
    with Channels(own, session) as client:
        assert client.run("kept += 1; print(kept)").text() == "43\n"
    own.end(session)
    works(own)


def test_sessions_outlive_an_engine_that_ends_its_containers(own):
    session = own.session(template="kept", name="eda")["id"]
    with Channels(own, session) as client:
        client.run("import pathlib; _ = pathlib.Path('kept.txt').write_text('still here'); gone = 41")
    engine("down")
    # It is said at once, not when the engine is back.
    eventually(lambda: own.show(session)["state"] == "dead", "the session is dead", 60)
    assert own.show(session)["reason"].startswith("sandbox_lost"), own.show(session)
    reply = own.http.put("v1/sessions/eda", json={"template": "kept"})
    assert (reply.status_code, reply.json()["retryable"]) == (503, True), reply.text
    engine("up")
    code = {"code": "print(open('kept.txt').read(), 'gone' in globals())"}
    done = own.http.post(f"v1/sessions/{session}/executions", json=code)
    assert done.status_code == 200, done.text
    result = done.json()
    assert (result["status"], result["text"]) == ("ok", "still here False\n"), result
    assert (result["kernel"]["incarnation"], "gone" in str(result["kernel"]["replaced"])) == (2, True), result
    own.end(session)
    works(own)
