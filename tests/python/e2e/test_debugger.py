"""A debugger in a session, by the protocol of JupyterLab's (`debug_request`): a request of its that blocks the control channel is noticed."""

import itertools

import pytest
from channels import Channels
from waiting import eventually

CODE = "def inner(n):\n    m = n + 1\n    return m\ninner(41)"


class Debugger:
    """Requests of the Debug Adapter Protocol, over the channels of a kernel."""

    def __init__(self, channels):
        self.channels, self.numbers = channels, itertools.count(1)

    def send(self, command, **arguments):
        """A request; its id."""
        content = {"seq": next(self.numbers), "type": "request", "command": command, "arguments": arguments}
        return self.channels.send("debug_request", content, "control")

    def ask(self, command, **arguments):
        """A request; the body of its response."""
        content = self.channels.outcome(self.send(command, **arguments)).content
        assert content["success"], content
        return content.get("body")


@pytest.fixture
def stopped(shared, session):
    """A debugger of a session whose cell has stopped at a breakpoint."""
    kernel = shared.http.get(f"v1/sessions/{session}").json()["id"]
    with Channels(shared, kernel) as channels:
        debugger = Debugger(channels)
        debugger.ask("initialize", clientID="test", adapterID="", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        debugger.ask("attach")
        source = debugger.ask("dumpCell", code=CODE)["sourcePath"]
        [breakpoint] = debugger.ask("setBreakpoints", breakpoints=[{"line": 3}], source={"path": source}, sourceModified=False)["breakpoints"]
        assert breakpoint["verified"]
        debugger.ask("configurationDone")
        channels.submit(CODE)
        event = channels.until(lambda message: message["msg_type"] == "debug_event" and message["content"]["event"] == "stopped")[-1]
        debugger.thread = event["content"]["body"]["threadId"]
        yield debugger


def test_a_request_of_a_debugger_that_blocks_the_control_channel_is_noticed(shared, session, stopped):
    base = f"v1/sessions/{session}"
    assert shared.http.get(f"{base}/variables").status_code == 200, "a breakpoint alone blocks nothing"
    frame = stopped.ask("stackTrace", threadId=stopped.thread)["stackFrames"][0]["id"]
    # The kernel takes no other request of its control channel before this one has ended.
    stopped.send("evaluate", expression="__import__('time').sleep(600)", frameId=frame, context="repl")
    eventually(lambda: shared.http.get(f"{base}/variables", timeout=60).status_code >= 500, "it is noticed", 60)
    problem = eventually(lambda: shared.http.get(base).json()["unresponsive"], "it is said", 60)
    assert problem["problem"] == "control" and "debugger" in problem["advice"], problem
    at_once = shared.http.get(f"{base}/variables", timeout=60)
    assert (at_once.status_code, at_once.json()["code"]) == (503, "busy") and "debugger" in at_once.json()["detail"], at_once.text
    assert shared.http.post(f"{base}/restart", timeout=60).status_code == 200
    assert shared.http.get(base).json()["unresponsive"] is None
    assert shared.http.get(f"{base}/variables", timeout=60).status_code == 200
