"""A password that is typed for `getpass()` is in no log, from any client and at any log level."""

import os

import pytest
from agents import agent, run, text, whole
from channels import Channels
from files import beneath
from servers import Himalia
from terminal import Terminal, command
from waiting import eventually

CODE = "import getpass, hashlib\nhashlib.sha256(getpass.getpass('Word? ').encode()).hexdigest()[:8]"


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """One that logs everything."""
    own = Himalia(tmp_path / "gateway", "--log", "trace")
    yield own
    own.stop()


def by_rest(gateway, session, word):
    """Over /v1."""
    asked = {"code": CODE, "background": True, "allow_stdin": True}
    path = gateway.http.post(f"v1/sessions/{session}/executions", json=asked).headers["location"].lstrip("/")
    waits = eventually(lambda: gateway.http.get(path).json().get("input"), "it asks", 60)
    assert (waits["prompt"], waits["password"]) == ("Word? ", True)
    assert gateway.http.post(f"{path}/input", json={"value": word}).status_code == 202
    return eventually(lambda: gateway.http.get(path).json()["outputs"], "its value", 60)[0]["data"]["text/plain"]


def by_prompt(gateway, session, word):
    """As the answer to a prompt, which does not show it."""
    asked = {"code": CODE, "background": True, "allow_stdin": True}
    path = gateway.http.post(f"v1/sessions/{session}/executions", json=asked).headers["location"].lstrip("/")
    open_prompts = lambda: gateway.http.get("v1/prompts").json()["prompts"]  # noqa: E731
    prompt = eventually(open_prompts, "it asks", 60)[0]
    assert (prompt["kind"], prompt["password"]) == ("input", True)
    answered = gateway.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": word})
    assert answered.status_code == 200 and word not in answered.text
    assert word not in gateway.http.get(f"v1/sessions/{session}/prompts").text
    return eventually(lambda: gateway.http.get(path).json()["outputs"], "its value", 60)[0]["data"]["text/plain"]


def by_mcp(gateway, session, word):
    """Over MCP, with a second call."""

    async def call():
        async with agent(gateway) as client:
            waits = await client.call_tool("execute", {"session": session, "code": CODE, "allow_stdin": True})
            answer = {"session": session, "code": word, "input_for": whole(waits)["id"]}
            done = await client.call_tool("execute", answer)
            assert not done.is_error, text(done)
            return whole(done)["outputs"][0]["data"]["text/plain"]

    return run(call)


def by_websocket(gateway, session, word):
    """A Jupyter client."""
    with Channels(gateway, session) as client:
        msg_id = client.submit(CODE, allow_stdin=True)
        request = client.until(lambda m: m["channel"] == "stdin")[-1]
        assert request["content"]["password"] is True
        client.send("input_reply", {"value": word}, "stdin", parent=request["header"])
        return client.outcome(msg_id).of("execute_result")[0]["content"]["data"]["text/plain"]


def by_terminal(gateway, session, word):
    """A person."""
    terminal = Terminal(command(gateway, "exec", session, CODE), gateway.directory)
    terminal.until("Word? ")
    terminal.type(f"{word}\n")
    ended, rest = terminal.end()
    assert ended == 0 and word not in rest
    return rest.strip()


def test_it_is_nowhere(gateway):
    session = gateway.start_session()
    words = []
    for by in (by_rest, by_prompt, by_mcp, by_websocket, by_terminal):
        words.append(f"hunter-{os.urandom(8).hex()}")
        shown = by(gateway, session, words[-1])
        assert len(shown.strip("'")) == 8, "the code had it"
    for shown in ("history", "notebook.ipynb", "script.py"):
        said = gateway.http.get(f"v1/sessions/{session}/{shown}")
        assert said.status_code == 200 and not any(word in said.text for word in words)
    gateway.kill()
    gateway.start()
    places = [path for path in beneath(gateway.directory) if path.is_file()]
    assert "DEBUG" in gateway.log.read_text(), "so much is logged"
    assert any("journal" in str(path) or "kernels" in str(path) for path in places)
    for path in places:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # the gateway, which runs, has removed it
        for word in words:
            assert word.encode() not in content, path
