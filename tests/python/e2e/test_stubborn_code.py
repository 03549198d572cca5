"""Code that ignores interrupts: its callers, and those behind it, are answered within the time that they have named."""

import json
import subprocess
import time

import pytest
from terminal import command

STUBBORN = """
import time
end = time.monotonic() + 300
while time.monotonic() < end:
    try: time.sleep(1)
    except BaseException: pass
"""


@pytest.fixture
def session(shared):
    """A session on the shared gateway."""
    made = shared.start_session()
    yield made
    shared.delete_session(made)


def post(shared, session, body, **options):
    """The response to new code, and how long it took."""
    began = time.monotonic()
    reply = shared.http.post(f"v1/sessions/{session}/executions", json=body, timeout=120, **options)
    return reply, time.monotonic() - began


def test_the_caller_and_the_one_behind_are_answered_and_a_restart_helps(shared, session):
    post(shared, session, {"code": "kept = 1"})
    reply, took = post(shared, session, {"code": STUBBORN, "timeout_s": 1})
    result = reply.json()
    assert (reply.status_code, result["status"]) == (202, "running"), result
    assert 10 < took < 40
    assert result["stuck"]["execution"] == result["id"] and "restart" in result["stuck"]["hint"].lower()
    behind, took = post(shared, session, {"code": "1", "timeout_s": 1})
    waiting = behind.json()
    assert (behind.status_code, waiting["status"], waiting["behind"]) == (202, "queued", result["id"]), waiting
    assert waiting["stuck"]["execution"] == result["id"] and took < 30
    # A caller who names a wait has it.
    named, took = post(shared, session, {"code": "2", "wait_s": 2})
    assert named.status_code == 202 and 2 <= took < 20
    assert shared.http.post(f"v1/sessions/{session}/restart", timeout=60).status_code == 200
    ended = shared.http.get(f"v1/executions/{result['id']}").json()
    assert (ended["status"], ended["death"]["cause"], "stuck" in ended) == ("kernel_died", "restart", False)


def test_a_stream_says_what_is_stuck(shared, session):
    body = {"code": STUBBORN, "timeout_s": 0.5}
    headers = {"Accept": "application/x-ndjson"}
    with shared.http.stream("POST", f"v1/sessions/{session}/executions", json=body, headers=headers, timeout=120) as reply:
        events = (json.loads(line) for line in reply.iter_lines())
        stuck = next(event for event in events if event["event"] == "stuck")
    assert stuck["execution"] == stuck["execution_id"] and "ignores interrupts" in stuck["hint"]


@pytest.mark.parametrize("on_timeout", ["restart", "kill"])
def test_the_process_ends_with_the_time_if_its_caller_wants_that(shared, session, on_timeout):
    reply, took = post(shared, session, {"code": STUBBORN, "timeout_s": 1, "on_timeout": on_timeout})
    result = reply.json()
    assert (reply.status_code, result["status"]) == (200, "kernel_died"), result
    assert result["death"]["cause"] == "execution_timeout"
    assert took < 40
    after, _ = post(shared, session, {"code": "1 + 1"})
    assert after.json()["status"] == "ok" and after.json()["kernel"]["incarnation"] == 2


def test_code_that_is_detached_is_answered_at_its_time(shared, session):
    reply, took = post(shared, session, {"code": STUBBORN, "timeout_s": 0.5, "on_timeout": "detach"})
    assert (reply.status_code, reply.json()["detached"]) == (202, True)
    assert took < 30


def test_the_command_line_does_not_wait_for_it(shared, session):
    def run(code, *options):
        argv = command(shared, "exec", session, code, "--timeout", "1", *options)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)

    stuck = run(STUBBORN, "--json")
    result = json.loads(stuck.stdout)
    assert (stuck.returncode, result["status"], result["stuck"]["execution"]) == (124, "running", result["id"]), stuck
    behind = run("1")
    own = behind.stderr.rpartition("/v1/executions/")[2].strip()
    assert behind.returncode == 124 and f"waits for {result['id']}" in behind.stderr and own not in ("", result["id"]), behind
    assert shared.http.get(f"v1/executions/{own}").json()["status"] == "queued"


def test_output_that_is_no_unicode_loses_nothing_around_it(shared, session):
    reply, _ = post(shared, session, {"code": "print('first'); print('n\\udcff'); print('third')"})
    result = reply.json()
    assert (result["text"], result.get("gaps")) == ("first\nn\ufffd\nthird\n", None), result


def test_a_later_cell_changes_a_display_in_the_notebook(shared, session):
    post(shared, session, {"code": "from IPython.display import display\nh = display('before', display_id=True)"})
    post(shared, session, {"code": "h.update('after')"})
    notebook = shared.http.get(f"v1/sessions/{session}/notebook.ipynb").json()
    assert notebook["cells"][0]["outputs"][0]["data"]["text/plain"] == "'after'"
