"""What a tenant may call, ask of models and have returned in a day: a loop stops there, others do not, and a restart changes nothing."""

import subprocess
from types import SimpleNamespace

import pytest
from agents import agent, whole
from agents import run as agent_run
from levels import LEVELS, AtLevel, place
from models import Model
from servers import client_with
from terminal import command
from upstream import Orders
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if "ordinary" not in level][:1]
TOKENS = {name: f"token-of-{name}-0123456789" for name in ("acme", "bank", "cafe", "free")}
CALLS, TOKENS_A_DAY, SPEND, CHARS = 30, 60, 0.0005, 400

CONFIG = """
[tool_servers.orders]
url = "{orders}"

[models.small]
url = "{models}/v1"
input_price = 1
output_price = 10
max_output_tokens = 100

[templates.busy]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["orders.list_*"]
models = ["small"]

[tenants.acme]
tool_calls_per_day = {calls}
model_tokens_per_day = {tokens}
tokens = {{ a = "{acme}" }}
[tenants.bank]
model_spend_per_day = {spend}
tokens = {{ a = "{bank}" }}
[tenants.cafe]
returned_chars_per_day = {chars}
tokens = {{ a = "{cafe}" }}
[tenants.free]
tokens = {{ a = "{free}" }}
"""

ASKS = """
import himalia
answers = 0
try:
    for n in range(100):
        answers += await himalia.llm(f"echo {n}", max_tokens=10) == str(n)
except himalia.ToolError as error:
    print(answers, type(error).__name__, error)
else:
    print(answers)
"""


class World:
    """A server of tools, one of models, and a gateway with four tenants."""

    def __init__(self, directory, level):
        self.orders, self.model = Orders(directory), Model()
        text = CONFIG.format(
            orders=self.orders.url, models=self.model.url, place=place(level), calls=CALLS, tokens=TOKENS_A_DAY, spend=SPEND, chars=CHARS, **TOKENS
        )
        self.gateway = AtLevel(directory / "gateway", level, extra=text)
        self.callers = {name: client_with(self.gateway, token) for name, token in TOKENS.items()}

    def session(self, tenant):
        """The id of a new session, whose server of tools is ready."""
        http = self.callers[tenant]
        reply = http.post("v1/sessions", json={"template": "busy"})
        assert reply.status_code == 201, reply.text
        made = reply.json()["id"]
        servers = lambda: http.get(f"v1/sessions/{made}/tools/servers").json()["servers"]  # noqa: E731
        eventually(lambda: all(one["ready"] for one in servers()), lambda: str(servers()), 60)
        return made

    def run(self, tenant, session, code):
        """The result of an execution."""
        reply = self.callers[tenant].post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": 50})
        assert reply.status_code == 200, reply.text
        assert reply.json()["error"] is None, reply.json()
        return reply.json()

    def usage(self, tenant):
        """What the tenant uses."""
        return self.callers[tenant].get("v1/usage").json()

    def close(self):
        """Ends all."""
        for http in self.callers.values():
            http.close()
        self.gateway.stop()
        self.model.close()
        self.orders.close()


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("days"), request.param)
    yield made
    made.close()


def test_calls_of_tools_stop_at_the_quota_of_the_tenant(world):
    code = """
import asyncio, himalia
calls = [himalia.call("orders.list_orders", limit=1) for _ in range(50)]
answers = await asyncio.gather(*calls, return_exceptions=True)
refused = [one for one in answers if isinstance(one, himalia.ToolError)]
print(len(answers) - len(refused), {one.code for one in refused}, *refused[:1])
"""
    session = world.session("acme")
    result = world.run("acme", session, code)
    begins = f"{CALLS} {{'tool_limit'}} the quota tool_calls_per_day of the tenant acme is exhausted: {CALLS} of {CALLS} calls are used; it is possible again at "
    assert result["text"].startswith(begins) and "ask the operator for more" in result["text"], result["text"]
    assert (result["usage"]["tool_calls"], result["usage"]["tool_calls_refused"]) == (50, 20), result["usage"]
    assert world.usage("acme")["tool_calls"] == {"used": CALLS, "limit": CALLS}
    # A call of a model directly is one of the tenant's, too.
    reply = world.callers["acme"].post(f"v1/sessions/{session}/tools/calls", json={"tool": "orders.list_orders", "arguments": {}})
    assert (reply.status_code, reply.json()["code"]) == (429, "tool_limit"), reply.text
    # Another tenant has no limit, and its calls are its own.
    free = world.session("free")
    assert world.run("free", free, code)["text"].startswith("50 set()")
    assert world.usage("free")["tool_calls"] == {"used": 50, "limit": None}
    assert world.usage("acme")["tool_calls"]["used"] == CALLS
    # A crash changes nothing.
    world.gateway.kill()
    world.gateway.start()
    assert world.usage("acme")["tool_calls"] == {"used": CALLS, "limit": CALLS}
    assert world.run("acme", session, code)["text"].startswith("0 {'tool_limit'}")


def test_tokens_and_spend_of_models_stop_at_the_quota_of_the_tenant(world):
    session = world.session("acme")
    result = world.run("acme", session, ASKS)
    answers, kind, *_ = result["text"].split()
    assert 0 < int(answers) < 20 and kind == "ModelLimit", result["text"]
    assert "model_tokens_per_day of the tenant acme" in result["text"] and f"of {TOKENS_A_DAY} tokens" in result["text"]
    used, of_day = result["usage"], world.usage("acme")
    tokens = used["model_input_tokens"] + used["model_output_tokens"]
    assert 0 < tokens <= TOKENS_A_DAY and of_day["model_tokens"] == {"used": tokens, "limit": TOKENS_A_DAY}, of_day
    assert of_day["model_input_tokens"] == used["model_input_tokens"]

    session = world.session("bank")
    result = world.run("bank", session, ASKS)
    assert "ModelLimit the quota model_spend_per_day of the tenant bank is exhausted: 0.000" in result["text"], result["text"]
    spend = world.usage("bank")["model_spend"]
    assert spend["limit"] == SPEND and 0 < spend["used"] <= SPEND, spend
    assert spend["used"] == pytest.approx(result["usage"]["model_spend"])

    free = world.session("free")
    assert world.run("free", free, ASKS)["text"] == "100\n"
    # `himalia usage` shows them.
    done = subprocess.run(command(world.gateway, "usage", "bank"), capture_output=True, text=True, timeout=60, check=True)
    assert f"of {SPEND}, until" in done.stdout, done.stdout


def call(world, tenant, tool, arguments):
    """The result of a tool of MCP."""
    place = SimpleNamespace(url=world.gateway.url, token=TOKENS[tenant])

    async def called():
        async with agent(place) as client:
            return await client.call_tool(tool, arguments)

    result = agent_run(called)
    return result.is_error, result.content[0].text, whole(result)


def test_characters_for_models_are_those_of_executions_and_sessions(world):
    session, other = world.session("free"), world.session("free")
    http = world.callers["free"]
    used = world.usage("free")["returned_chars"]["used"]

    def returned(path):
        return http.get(path).raise_for_status().json()

    def known():
        of_sessions = [returned(f"v1/sessions/{one}/usage")["returned_chars"] for one in (session, other)]
        return [returned(f"v1/executions/{one}")["returned_chars"] for one in (first, second)], of_sessions

    _, said, result = call(world, "free", "execute", {"session": session, "code": "print('é' * 300)"})
    first = result["id"]
    _, again, _ = call(world, "free", "get_output", {"execution_id": first})
    # Hosts show models the text. The same as JSON is in `_meta`, for programs, and does not count.
    _, shown, _ = call(world, "free", "session", {"op": "list", "session": session})
    _, more, result = call(world, "free", "execute", {"session": session, "code": "1/0"})
    second = result["id"]
    expected = [[len(said) + len(again), len(more)], [len(said) + len(again) + len(shown) + len(more), 0]]
    assert list(known()) == expected
    # Programs that read the same are no models. What is about no session is the caller's alone.
    world.run("free", session, "1")
    assert list(known()) == expected
    _, listed, _ = call(world, "free", "session", {"op": "list"})
    assert list(known()) == expected
    assert world.usage("free")["returned_chars"]["used"] - used == sum(expected[1]) + len(listed)
    world.gateway.kill()
    world.gateway.start()
    assert list(known()) == expected
    _, more, _ = call(world, "free", "get_output", {"execution_id": first})
    expected[0][0] += len(more)
    expected[1][0] += len(more)
    assert list(known()) == expected


def test_characters_for_models_stop_at_the_quota_of_the_tenant(world):
    session = world.session("cafe")

    def execute(tenant, into, code):
        return call(world, tenant, "execute", {"session": into, "code": code})

    failed, text, _ = execute("cafe", session, "print('x' * 300)")
    assert not failed
    usage = world.usage("cafe")
    assert usage["returned_chars"] == {"used": len(text), "limit": CHARS}, usage
    assert usage["callers"][0]["returned_chars"] == len(text), usage
    failed, more, _ = execute("cafe", session, "print('y' * 300)")
    assert not failed
    failed, said, structured = execute("cafe", session, "print('z')")
    assert failed and structured["code"] == "quota_exceeded" and structured["retryable"], structured
    assert f"{len(text) + len(more)} of {CHARS} characters are used; it is possible again at 2" in said, said
    # Others are as before, and so is the API.
    free = world.session("free")
    assert not execute("free", free, "print('z')")[0]
    assert world.run("cafe", session, "print('z')")["text"] == "z\n"
