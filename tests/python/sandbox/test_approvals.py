"""Code asks people: calls that change something wait for an approval, and code has questions of its own. Answers come from outside."""

import threading
from subprocess import run

import pytest
from levels import LEVELS, AtLevel, place
from servers import client_with
from terminal import command
from upstream import Orders
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if level == "namespaces"]
TOKENS = {"ada": "token-of-ada-0123456789", "boss": "token-of-boss-0123456789"}
EVE = "token-of-eve-0123456789"

CONFIG = """
[tool_servers.orders]
url = "{orders}"
description = "Orders of the shop."

[tenants.acme]
tokens = {{ ada = "{ada}", boss = "{boss}" }}
scopes = {{ boss = "admin" }}

[tenants.other]
tokens = {{ eve = "{eve}" }}
scopes = {{ eve = "admin" }}

[templates.tools]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["orders"]

[templates.other]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["orders"]
"""
CREATE = 'import himalia\nprint(await himalia.call("orders.create_order", customer="ada", amount={}))'


class World:
    """A server of tools, and a gateway with it."""

    def __init__(self, directory, level):
        self.orders = Orders(directory)
        text = CONFIG.format(orders=self.orders.url, place=place(level), eve=EVE, **TOKENS)
        self.gateway = AtLevel(directory / "gateway", level, extra=text)

    def start(self, session, code):
        """The id of an execution in the background."""
        asked = {"code": code, "background": True, "timeout_s": 60}
        return self.gateway.http.post(f"v1/sessions/{session}/executions", json=asked).json()["id"]

    def prompt(self, session):
        """The prompt that is open, once there is one."""
        path = f"v1/sessions/{session}/prompts"
        opened = lambda: self.gateway.http.get(path, params={"open": True}).json()["prompts"]  # noqa: E731
        return eventually(opened, "a prompt", 60)[0]

    def answer(self, prompt, value):
        """Answers it."""
        return self.gateway.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": value})

    def ended(self, execution):
        """The result of an execution that has ended."""

        def result():
            found = self.gateway.http.get(f"v1/executions/{execution}").json()
            return found if found["status"] not in ("queued", "running") else None

        return eventually(result, "the execution has ended", 60)

    def restart(self):
        """Kills the gateway and starts the next one."""
        self.gateway.kill()
        self.gateway.start()

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.orders.close()


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("approvals"), request.param)
    yield made
    made.close()


@pytest.fixture
def session(world):
    """A session whose server of tools is there."""
    made = world.gateway.session("tools")["id"]
    servers = f"v1/sessions/{made}/tools/servers"
    eventually(lambda: world.gateway.http.get(servers).json()["servers"][0]["ready"], "the server is there", 60)
    yield made
    world.gateway.end(made)


def on_terminal(world, *arguments):
    """What `himalia prompts` prints."""
    done = run(command(world.gateway, "prompts", *arguments), capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_a_call_waits_for_its_approval_and_is_made_once(world, session):
    before = world.orders.created()
    execution = world.start(session, CREATE.format(7))
    prompt = world.prompt(session)
    assert (prompt["kind"], prompt["tool"], prompt["execution"]) == ("approval", "orders.create_order", execution)
    assert prompt["arguments"] == {"customer": "ada", "amount": 7} and prompt["options"] == ["once", "session", "always", "deny"]
    assert world.orders.created() == before
    # It outlives the gateway, and the code that waits finds the next one.
    world.restart()
    assert world.prompt(session)["id"] == prompt["id"]
    shown = on_terminal(world, "show", prompt["id"])
    assert "tool orders.create_order asks:" in shown and '"customer": "ada"' in shown and '"amount": 7' in shown, shown
    assert f"{prompt['id']} was answered by operator: once" in on_terminal(world, "answer", prompt["id"], "once")
    assert world.ended(execution)["text"].strip() == "{'created': 'ada'}"
    assert world.orders.created() == before + 1
    # Not for another call.
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 7}, "approval": prompt["id"]}
    refused = world.gateway.http.post(f"v1/sessions/{session}/tools/calls", json=call)
    assert refused.status_code == 403 and "made before" in refused.text, refused.text
    assert world.orders.created() == before + 1


def test_an_approval_is_of_these_arguments(world, session):
    before = world.orders.created()
    calls = f"v1/sessions/{session}/tools/calls"
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 7}}
    needed = world.gateway.http.post(calls, json=call)
    assert (needed.status_code, needed.json()["code"]) == (409, "approval_needed"), needed.text
    prompt = world.prompt(session)
    world.answer(prompt, "once")
    other = {**call, "arguments": {"customer": "ada", "amount": 7000}, "approval": prompt["id"]}
    refused = world.gateway.http.post(calls, json=other)
    assert refused.status_code == 403 and "another call" in refused.text, refused.text
    assert world.orders.created() == before
    assert world.gateway.http.post(calls, json={**call, "approval": prompt["id"]}).status_code == 200
    assert world.orders.created() == before + 1


def test_a_denied_call_is_an_error_of_the_code_and_an_approved_tool_asks_no_more(world, session):
    before = world.orders.created()
    execution = world.start(session, CREATE.format(1))
    world.answer(world.prompt(session), "deny")
    failed = world.ended(execution)
    assert failed["error"]["name"] == "ToolDenied" and "a person has denied it" in str(failed["error"]), failed
    assert world.orders.created() == before
    loop = "import himalia\nfor n in range(5): await himalia.call('orders.create_order', customer='ada', amount=n)"
    execution = world.start(session, loop)
    world.answer(world.prompt(session), "session")
    assert world.ended(execution)["status"] == "ok"
    assert world.orders.created() == before + 5


def test_who_approves_a_call_sees_all_of_it(world, session):
    calls = f"v1/sessions/{session}/tools/calls"
    arguments = {"amount": 1, "token_address": "0xATTACKER", "authorization": {"limit": "unlimited"}}
    needed = world.gateway.http.post(calls, json={"tool": "orders.transfer", "arguments": arguments})
    assert needed.json()["code"] == "approval_needed", needed.text
    assert world.prompt(session)["arguments"] == arguments
    before = world.orders.created()
    long = world.gateway.http.post(calls, json={"tool": "orders.transfer", "arguments": {**arguments, "note": "x" * 16_000}})
    assert (long.status_code, long.json()["code"]) == (403, "tool_denied") and "cannot be approved" in long.text, long.text
    assert world.orders.created() == before


def approvals(http):
    """The tools that are approved for later sessions."""
    listed = http.get("v1/tool-approvals")
    assert listed.status_code == 200, listed.text
    return listed.json()["approvals"]


def ready(http, template="tools"):
    """The id of a new session whose server of tools is there."""
    made = http.post("v1/sessions", json={"template": template}).json()["id"]
    servers = f"v1/sessions/{made}/tools/servers"
    eventually(lambda: http.get(servers).json()["servers"][0]["ready"], "the server is there", 60)
    return made


def test_what_is_approved_always_is_not_asked_in_later_sessions_of_the_caller(world):
    http = {name: client_with(world.gateway, token) for name, token in TOKENS.items()}
    session = ready(http["ada"])
    loop = "import himalia\nfor n in range(3): await himalia.call('orders.create_order', customer='ada', amount=n)"
    before = world.orders.created()
    asked = {"code": loop, "background": True, "timeout_s": 60}
    execution = http["ada"].post(f"v1/sessions/{session}/executions", json=asked).json()["id"]
    prompt = world.prompt(session)
    answer = f"v1/prompts/{prompt['id']}/answer"
    # The token that runs code approves nothing, and neither sees nor ends what is approved.
    assert http["ada"].post(answer, json={"value": "always"}).status_code == 403
    assert http["ada"].get("v1/tool-approvals").status_code == 403
    assert http["ada"].delete(f"v1/tool-approvals/{prompt['session']}").status_code == 403
    assert approvals(http["boss"]) == [] and world.orders.created() == before
    replies = []
    both = [
        threading.Thread(target=lambda v=value: replies.append(http["boss"].post(answer, json={"value": v})))
        for value in ["always", "always"]
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(reply.status_code for reply in replies) == [200, 409]
    assert world.ended(execution)["status"] == "ok" and world.orders.created() == before + 3
    [approval] = approvals(http["boss"])
    kept = {name: approval[name] for name in ["owner", "caller", "template", "tool", "approved_by"]}
    of = {"owner": "acme", "caller": "ada", "template": "tools", "tool": "orders.create_order", "approved_by": "acme/boss"}
    assert kept == of and approval["approved"].endswith("Z")
    # It is kept over the end of the gateway.
    world.restart()
    later = ready(http["ada"])
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 9}}
    assert http["ada"].post(f"v1/sessions/{later}/tools/calls", json=call).status_code == 200
    # Not for another caller, template or tenant.
    for client, template in [(http["boss"], "tools"), (http["ada"], "other"), (client_with(world.gateway, EVE), "tools")]:
        elsewhere = ready(client, template)
        refused = client.post(f"v1/sessions/{elsewhere}/tools/calls", json=call)
        assert refused.json()["code"] == "approval_needed", refused.text
        client.delete(f"v1/sessions/{elsewhere}")
    eve = client_with(world.gateway, EVE)
    assert approvals(eve) == [] and eve.delete(f"v1/tool-approvals/{approval['id']}").status_code == 404
    assert [one["id"] for one in approvals(world.gateway.http)] == [approval["id"]], "the operator sees all"
    # What is revoked is asked for again, in sessions that live, too.
    done = run(command(world.gateway, "approval", "revoke", approval["id"]), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert approvals(http["boss"]) == []
    for one in (later, session):
        refused = http["ada"].post(f"v1/sessions/{one}/tools/calls", json=call)
        assert refused.json()["code"] == "approval_needed", refused.text
        assert http["ada"].delete(f"v1/sessions/{one}").status_code == 204


def test_a_tool_that_has_changed_since_its_approval_is_asked_for_again(world):
    boss = client_with(world.gateway, TOKENS["boss"])
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 7}}
    calls = lambda session: boss.post(f"v1/sessions/{session}/tools/calls", json=call)  # noqa: E731
    sessions = []
    for value in ["session", "always"]:
        sessions.append(ready(boss))
        assert calls(sessions[-1]).json()["code"] == "approval_needed"
        answered = boss.post(f"v1/prompts/{world.prompt(sessions[-1])['id']}/answer", json={"value": value})
        assert answered.status_code == 200, answered.text

    def with_tools(*changed):
        """The replies to the call in both sessions, once the gateway has listed the tools of the server."""
        world.orders.close()
        world.orders.start(*changed)
        world.restart()
        for session in sessions:
            servers = f"v1/sessions/{session}/tools/servers"
            eventually(lambda path=servers: boss.get(path).json()["servers"][0]["ready"], "the server is there", 60)
        return [calls(session) for session in sessions]

    before = world.orders.created()
    for changed in ["description", "schema"]:
        assert [reply.json()["code"] for reply in with_tools(changed)] == ["approval_needed"] * 2, changed
    assert world.orders.created() == before
    # Each approval is valid for the tool as it was, after the restarts, too.
    assert [reply.status_code for reply in with_tools()] == [200, 200]
    assert world.orders.created() == before + 2
    [approval] = approvals(boss)
    assert boss.delete(f"v1/tool-approvals/{approval['id']}").status_code == 204
    for session in sessions:
        boss.delete(f"v1/sessions/{session}")


def test_an_answer_that_came_too_late_approves_nothing(world):
    boss = client_with(world.gateway, TOKENS["boss"])
    session = ready(boss)
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 7}}
    boss.post(f"v1/sessions/{session}/tools/calls", json=call)
    answer = f"v1/prompts/{world.prompt(session)['id']}/answer"
    assert boss.post(answer, json={"value": "deny"}).status_code == 200
    late = boss.post(answer, json={"value": "always"})
    assert (late.status_code, late.json()["code"]) == (409, "conflict"), late.text
    assert approvals(boss) == []
    question = boss.post(f"v1/sessions/{session}/prompts", json={"text": "How often?", "options": ["always"]}).json()
    assert boss.post(f"v1/prompts/{question['id']}/answer", json={"value": "always"}).status_code == 200
    assert approvals(boss) == [], "a question is no approval"
    boss.delete(f"v1/sessions/{session}")


def test_code_asks_and_waits_and_several_can_be_open(world, session):
    code = """
import asyncio, himalia
answers = await asyncio.gather(*(himalia.ask(f"Which one, {n}?", ["a", "b"]) for n in range(3)))
print(answers, himalia.sync.ask("And why?"))
try:
    await himalia.ask("Still there?", timeout=0.05)
except himalia.Withdrawn as error:
    print(error.code)
"""
    execution = world.start(session, code)
    path = f"v1/sessions/{session}/prompts"
    opened = lambda: world.gateway.http.get(path, params={"open": True}).json()["prompts"]  # noqa: E731
    eventually(lambda: len(opened()) == 3, "all are asked", 60)
    for prompt in opened():
        world.answer(prompt, "a" if "1" in prompt["text"] else "b")
    prompt = world.prompt(session)
    assert (prompt["text"], prompt["options"], prompt["kind"]) == ("And why?", [], "question")
    world.answer(prompt, "because")
    assert world.ended(execution)["text"].splitlines() == ["['b', 'a', 'b'] because", "prompt_withdrawn"]


def test_who_runs_code_does_not_approve_it(world):
    http = {name: client_with(world.gateway, token) for name, token in TOKENS.items()}
    made = http["ada"].post("v1/sessions", json={"template": "tools"}).json()["id"]
    servers = f"v1/sessions/{made}/tools/servers"
    eventually(lambda: http["ada"].get(servers).json()["servers"][0]["ready"], "the server is there", 60)
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 7}}
    needed = http["ada"].post(f"v1/sessions/{made}/tools/calls", json=call).json()
    prompt = http["ada"].get(f"v1/sessions/{made}/prompts").json()["prompts"][0]["id"]
    assert needed["code"] == "approval_needed" and prompt in needed["detail"], needed
    answer = f"v1/prompts/{prompt}/answer"
    assert http["ada"].post(answer, json={"value": "once"}).status_code == 403
    assert http["boss"].post(answer, json={"value": "once"}).json()["answered_by"] == "acme/boss"
    assert http["ada"].delete(f"v1/sessions/{made}").status_code == 204
