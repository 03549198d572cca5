"""`execution_time` of a template: each shell of a kernel has it for its own execution."""

import pytest
from channels import Channels
from servers import Himalia

LONG = """
import time
print("runs", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def limited(tmp_path_factory, kernel_python):
    """A gateway whose sessions have an execution time."""
    directory = tmp_path_factory.mktemp("limited")
    (directory / "himalia.toml").write_text('[templates.python3]\nkernelspec = "python3"\nexecution_time = "2s"\n')
    own = Himalia(directory / "gateway", "--config", str(directory / "himalia.toml"))
    yield own
    own.stop()


@pytest.fixture
def channels(limited):
    """A connection to a kernel with that limit."""
    session = limited.start_session()
    kernel = limited.http.get(f"v1/sessions/{session}").json()["id"]
    with Channels(limited, kernel) as made:
        yield made
    limited.delete_session(session)


def subshell(channels):
    """The id of a new subshell."""
    return channels.request("create_subshell_request", {}, "control").content["subshell_id"]


def submit(channels, code, shell):
    """Code for a subshell; the id of the request."""
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
    return channels.send("execute_request", content, subshell_id=shell)


def test_code_in_a_subshell_leaves_the_time_of_the_cell(channels):
    shell = subshell(channels)
    cell = channels.submit(LONG)
    channels.until(lambda message: message["msg_type"] == "stream" and message["parent_header"]["msg_id"] == cell)
    beside = submit(channels, "1", shell)
    outcome = {}

    def ended(message):
        if message["channel"] == "shell":
            outcome[message["parent_header"]["msg_id"]] = message["content"]
        return {cell, beside} <= outcome.keys()

    channels.until(ended)
    assert outcome[beside]["status"] == "ok"
    assert (outcome[cell]["status"], outcome[cell]["ename"]) == ("error", "KeyboardInterrupt")


def test_code_in_a_subshell_has_the_time_of_its_own(channels, limited):
    shell = subshell(channels)
    submit(channels, LONG, shell)
    # An interrupt would not reach it: its process ends.
    channels.until(lambda message: message["msg_type"] == "status" and message["content"]["execution_state"] in ("restarting", "dead"))
    shown = limited.http.get(f"api/kernels/{channels.kernel_id}").json()
    assert "execution_timeout" in str(shown), shown
