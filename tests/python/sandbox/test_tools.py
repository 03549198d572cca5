"""Code in a session calls tools of upstream servers: it finds them, calls them once, and is stopped by the policy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from events import follow
from levels import CONTAINERS, LEVELS, AtLevel, place
from servers import client_with
from upstream import Orders, Stock, Weather
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if "ordinary" not in level]
TOKENS = {"acme": "token-of-ada-0123456789", "other": "token-of-eve-0123456789"}

CONFIG = """
[tool_servers.orders]
url = "{orders}"
description = "Orders of the shop."

[tool_servers.weather]
openapi = "{weather}/openapi.json"
allowed_callers = {{ "*" = ["code"] }}

[tool_servers.stock]
url = "{stock}"

[tool_servers.secret]
url = "{orders}"
tenant = "acme"

[tenants.acme]
tokens = {{ ada = "{acme}" }}
[tenants.other]
tokens = {{ eve = "{other}" }}

[templates.tools]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["orders", "weather", "stock", "secret.list_*"]
tools_approval = false

[templates.writes]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["orders"]
tools_write = ["orders.create_*"]
tool_calls_per_execution = 20

[templates.bare]
kernelspec = "python3"
{place}memory = "512MiB"
"""


class World:
    """Three servers, and a gateway with them."""

    def __init__(self, directory, level):
        self.level = level
        self.directory = directory
        self.orders, self.stock, self.weather = Orders(directory), Stock(), Weather()
        text = CONFIG.format(orders=self.orders.url, stock=self.stock.url, weather=self.weather.url, place=place(level), **TOKENS)
        self.gateway = AtLevel(directory / "gateway", level, extra=text)
        self.http = self.gateway.http
        session = self.session("tools")
        try:
            ready = lambda: sum(one["ready"] for one in self.servers(session)) >= 3  # noqa: E731
            eventually(ready, lambda: str(self.servers(session)), 60)
        finally:
            self.gateway.end(session)

    def servers(self, session):
        """The servers that a session sees."""
        return self.http.get(f"v1/sessions/{session}/tools/servers").json()["servers"]

    def session(self, template, **body):
        """The id of a new session."""
        return self.gateway.session(template, **body)["id"]

    def run(self, session, code, **params):
        """The result of an execution."""
        params = {"wait_s": 60, **params}
        reply = self.gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code}, params=params)
        assert reply.status_code in (200, 201, 202), reply.text
        return reply.json()

    def says(self, session, code):
        """What code prints."""
        result = self.run(session, code)
        assert result["error"] is None, result["error"]
        return result["text"].strip()

    def records(self, session, enough):
        """The records of calls in a session's log, once there are enough."""
        records = []

        def seen(event):
            if event["event"] == "tool_call":
                records.append(event)
            return enough(records)

        follow(self.gateway, session, 0, seen)
        return records

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.orders.close()
        self.stock.close()
        self.weather.close()


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("tools"), request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world):
    """A session that may use tools that read, without a network."""
    made = world.session("tools")
    yield made
    world.gateway.end(made)


def test_tools_are_found_in_three_steps_and_called(world, session):
    code = """
import himalia
print(await himalia.list_api_servers())
print(await himalia.tools_search("forecast weather", limit=1))
print(await himalia.get_tool_info("weather.get_forecast"))
print(await himalia.call("weather.get_forecast", city="Oslo", days=2))
"""
    text = world.says(session, code)
    assert "orders (5 tools): Orders of the shop." in text and "weather (1 tool)" in text, text
    assert "secret" not in text, "it is another tenant's"
    assert "weather.get_forecast(city, days?): The weather of a city. [reads only]" in text, text
    assert "Called by: code in the session" in text, text
    assert "{'city': 'Oslo', 'days': '2'}" in text, text


def test_a_server_that_has_forgotten_its_session_is_begun_anew_and_no_call_repeated(world, session):
    count = "import himalia; print((await himalia.call('stock.count_items', sku='AB-7'))['count'])"
    assert world.says(session, count) == "14"
    world.stock.close()
    down = world.run(session, count)
    assert down["error"]["name"] in ("ToolUnavailable", "OutcomeUnknown"), down["error"]
    world.stock.start()
    again = lambda: world.run(session, count)["text"].strip() == "14"  # noqa: E731
    eventually(again, "calls reach the server again", 60)
    wrong = world.run(session, "await himalia.call('stock.count_items', sku='seven')")
    assert wrong["error"]["name"] == "InvalidArguments" and '/sku: "seven" does not match' in wrong["error"]["value"], wrong["error"]


def test_many_calls_at_once_and_calls_that_block(world, session):
    code = """
import asyncio, himalia
lists = await asyncio.gather(*(himalia.call("orders.list_orders", customer=str(n), limit=2) for n in range(100)))
print([one["orders"][0]["customer"] for one in lists] == [str(n) for n in range(100)])
print(himalia.sync.call("orders.list_orders", limit=1))
from himalia import sync
print(len(sync.tools_search("orders")))
"""
    result = world.run(session, code)
    assert result["error"] is None, result["error"]
    assert result["text"].splitlines() == ["True", "{'orders': [{'customer': '', 'number': 0}]}", "2"], result
    assert (result["usage"]["tool_calls"], result["usage"]["tool_calls_failed"]) == (101, 0)


def test_a_server_is_a_module_whose_functions_complete(world, session):
    code = """
from himalia.servers import orders, weather
import inspect, pickle
print((await orders.list_orders(limit=2))["orders"][1]["number"], orders.sync.list_orders(customer="b")["orders"][0]["customer"])
print(inspect.signature(orders.create_order), "|", inspect.getdoc(weather.get_forecast).splitlines()[0])
forecast = await weather.get_forecast("Oslo", days=2)
print(type(forecast).__name__, forecast.city, forecast["days"], pickle.loads(pickle.dumps(forecast)) == forecast)
try:
    await orders.list_orders(limits=2)
except TypeError as error:
    print(error)
"""
    result = world.run(session, code)
    assert result["error"] is None, result["error"]
    lines = result["text"].splitlines()
    assert lines[0] == "1 b" and lines[1].startswith("(customer: str, amount: float)") and lines[1].endswith("The weather of a city."), lines
    assert lines[2] == "GetForecastResult Oslo 2 True", lines
    assert "'limits'" in lines[3] and "list_orders(*, customer: str = '', limit: int = 10)" in lines[3], lines
    begun = [one["detail"] for one in world.records(session, lambda all: [one for one in all if one["execution_id"] == result["id"]][5:])]
    assert [one["line"] for one in begun if one["state"] == "begun"][-3:] == [3, 3, 5], begun  # IPython removes the empty first line
    complete = lambda code: world.http.post(f"v1/sessions/{session}/complete", json={"code": code}).json()["matches"]  # noqa: E731
    assert "list_orders" in " ".join(complete("orders.list_")) and "limit=" in " ".join(complete("orders.list_orders(li")), complete("orders.list_")
    assert "himalia.servers.orders" in " ".join(complete("import himalia.servers.or")) or "orders" in complete("from himalia.servers import ord")


def test_a_reply_becomes_a_table_in_the_session(world, session):
    code = """
import himalia, pandas
saved = await himalia.call_to_file("orders.list_orders", "orders.parquet", limit=1000)
print(saved.rows, pandas.read_parquet("orders.parquet")["number"].sum())
saved = himalia.sync.call_to_file("orders.list_orders", "orders.arrow", limit=3)
print(saved, pandas.read_feather("orders.arrow")["number"].tolist())
"""
    text = world.says(session, code).splitlines()
    assert text[0] == "1000 499500" and text[1].startswith("Saved('orders.arrow', ") and text[1].endswith(", 3 rows) [0, 1, 2]"), text


def test_wrong_names_and_arguments_are_refused_with_what_to_do(world, session):
    code = """
import himalia
for tool, arguments in [("orders.list_order", {}), ("order.list_orders", {}), ("orders.list_orders", {"limit": "x", "by": 1}), ("orders.fail", {})]:
    try:
        print(await himalia.call(tool, **arguments))
    except himalia.ToolError as error:
        print(type(error).__name__, error.code, error.status, [(one["path"], one["rule"]) for one in error.violations], "|", str(error).replace(chr(10), " "))
"""
    asked = world.orders.created()
    text = world.says(session, code).splitlines()
    assert text[0].startswith("UnknownTool unknown_tool 404 []") and "like it: orders.list_orders" in text[0], text
    assert text[1].startswith("UnknownServer unknown_server 404") and "there are: orders, stock, weather" in text[1], text
    assert text[2].startswith("InvalidArguments invalid_arguments 400 [('/limit', 'type')"), text
    assert text[3].startswith("ToolFailed tool_failed 422"), text
    assert world.orders.created() == asked


def test_a_misspelt_name_of_an_argument_is_refused_by_each_door(world, session):
    code = """
import himalia
from himalia.servers import orders
try:
    print(await himalia.call("orders.list_orders", limt=5))
except himalia.InvalidArguments as error:
    print(error.violations)
try:
    print(await orders.list_orders(limt=5))
except TypeError as error:
    print(error)
"""
    by_name, by_module = world.says(session, code).splitlines()
    assert "'path': '/limt'" in by_name and "did you mean limit?" in by_name, by_name
    assert "limt" in by_module, by_module
    refused = world.http.post(f"v1/sessions/{session}/tools/calls", json={"tool": "orders.list_orders", "arguments": {"limt": 5}})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_arguments") and "did you mean limit?" in refused.text, refused.text


def test_an_agent_corrects_its_call_by_the_errors(world):
    example = Path(__file__).parents[3] / "examples" / "reflect.py"
    command = [sys.executable, "-I", "-S", example, world.gateway.url, world.gateway.token, "tools"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    starts = [line.split(":")[1].strip() for line in done.stdout.splitlines() if line.startswith("attempt")]
    assert starts == ["UnknownTool", "InvalidArguments", "3 orders"], done.stdout


def test_fifty_writes_stop_at_the_policy(world, session):
    code = """
import himalia
codes = []
for n in range(50):
    try:
        await himalia.call("orders.create_order", customer="ada", amount=n)
    except himalia.ToolError as error:
        codes.append(error.code)
        last = error
print(sorted(set(codes)), len(codes), "|", last)
"""
    before = world.orders.created()
    result = world.run(session, code)
    assert "['tool_denied'] 50 | orders.create_order changes something" in result["text"], result
    assert "Do not try it again" in result["text"]
    usage = result["usage"]
    assert (usage["tool_calls"], usage["tool_calls_refused"]) == (50, 50), usage
    assert world.orders.created() == before
    denied = world.records(session, lambda all: all and all[-1]["detail"].get("code") == "tool_denied")[-1]
    assert denied["execution_id"] == result["id"], denied
    assert denied["detail"]["state"] == "refused" and denied["detail"]["tool"] == "orders.create_order", denied
    assert json.loads(denied["detail"]["arguments"])["customer"] == "ada" and denied["detail"]["caller"] == "code", denied

    # The limit of one execution; the next one begins anew.
    writes = world.session("writes")
    text = world.says(writes, code)
    assert "['tool_limit'] 30 | what runs has called tools 20 times" in text, text
    assert world.orders.created() == before + 20
    assert world.says(writes, 'import himalia; print(await himalia.call("orders.create_order", customer="b", amount=1))') == "{'created': 'b'}"
    world.gateway.end(writes)


def test_each_execution_has_its_own_calls_and_clients_have_no_such_limit(world):
    writes = world.session("writes")
    call = 'await himalia.call("orders.create_order", customer="c", amount=1)'
    before = world.orders.created()
    # The limit is 20.
    for _ in range(25):
        assert world.run(writes, f"import himalia; {call}")["status"] == "ok"
    for _ in range(25):
        body = {"tool": "orders.create_order", "arguments": {"customer": "c", "amount": 1}}
        reply = world.http.post(f"v1/sessions/{writes}/tools/calls", json=body)
        assert reply.status_code == 200, reply.text
    assert world.orders.created() == before + 50
    loop = f"import himalia\ndone = 0\ntry:\n  while True: {call}; done += 1\nexcept himalia.ToolError as e: print(done, e.code)"
    gather = f"import asyncio\nasync def one():\n  try: {call}; return 1\n  except himalia.ToolError: return 0\nprint(sum(await asyncio.gather(*[one() for _ in range(30)])))"
    for _ in range(3):
        assert world.says(writes, loop) == "20 tool_limit"
        assert world.says(writes, gather) == "20"
    world.gateway.end(writes)


def test_a_session_has_fewer_tools_than_its_template(world):
    made = world.session("tools", tools=["orders.list_*"])
    code = "import himalia; print(await himalia.tools_search())\ntry: await himalia.call('weather.get_forecast', city='x')\nexcept himalia.ToolError as e: print(e.code)"
    text = world.says(made, code)
    assert "orders.list_orders" in text and "create" not in text and text.endswith("unknown_server"), text
    world.gateway.end(made)
    reply = world.http.post("v1/sessions", json={"template": "writes", "tools": ["weather"]})
    assert reply.status_code == 422 and reply.json()["code"] == "tool_not_allowed", reply.text


def test_a_tenant_sees_its_own_servers_alone(world):
    seen = {}
    for tenant, token in TOKENS.items():
        http = client_with(world.gateway, token)
        made = http.post("v1/sessions", json={"template": "tools"}).json()["id"]
        code = "import himalia; print([one['name'] for one in await himalia.list_api_servers()])"
        reply = http.post(f"v1/sessions/{made}/executions", json={"code": code}, params={"wait_s": 60}).json()
        seen[tenant] = reply["text"].strip()
        assert http.delete(f"v1/sessions/{made}").status_code == 204
    assert seen == {"acme": "['orders', 'secret', 'stock', 'weather']", "other": "['orders', 'stock', 'weather']"}


def test_nothing_else_is_reached_without_a_network(world, session):
    code = """
import os, urllib.error, urllib.request
try:
    urllib.request.urlopen("http://example.org/")
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
    text = world.says(session, code)
    assert text.startswith("403 egress_denied"), text
    assert world.says(session, "print(os.environ['HIMALIA_NETWORK'], os.environ['PIP_INDEX_URL'])").startswith("none file:///"), text
    bare = world.session("bare")
    code = "import himalia\ntry: await himalia.list_api_servers()\nexcept himalia.ToolUnavailable as e: print(e)"
    assert "HIMALIA_API is not set" in world.says(bare, code)
    world.gateway.end(bare)


def test_bash_uses_the_door(world, session):
    if world.level in CONTAINERS:
        fetch = "python3 -c 'import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode())).read().decode())' $HIMALIA_API/v1/calls"
        command = fetch + """ '{"tool": "orders.list_orders", "arguments": {"limit": 1}}'"""
    else:
        command = """curl -s $HIMALIA_API/v1/calls -d '{"tool": "orders.list_orders", "arguments": {"limit": 1}}'"""
    reply = world.gateway.http.post(
        f"v1/sessions/{session}/executions", json={"code": command, "language": "bash"}, params={"wait_s": 60}
    ).json()
    answer = json.loads(reply["text"])
    assert answer["content"] == {"orders": [{"number": 0, "customer": ""}]}, reply


def test_clients_of_the_gateway_call_tools_too(world, session):
    base = f"v1/sessions/{session}/tools"
    found = world.http.get(base, params={"query": "list orders", "limit": 1}).json()
    assert [one["id"] for one in found["tools"]] == ["orders.list_orders"], found
    info = world.http.get(f"{base}/orders.list_orders").json()
    assert info["read_only"] and info["permitted"] and info["callers"] == ["model", "code"], info
    reply = world.http.post(f"{base}/calls", json={"tool": "orders.list_orders", "arguments": {"limit": 1}}).json()
    assert reply["content"]["orders"][0]["number"] == 0, reply
    denied = world.http.post(f"{base}/calls", json={"tool": "weather.get_forecast", "arguments": {"city": "x"}})
    assert denied.status_code == 403 and denied.json()["code"] == "tool_denied", denied.text
    assert "himalia.call" in denied.json()["detail"]


def test_a_call_that_a_killed_gateway_has_begun_is_unknown_and_not_repeated(world):
    made = world.session("writes")
    awaited = world.directory / "awaited"
    code = f"""
import himalia
try:
    print(await himalia.call("orders.wait_for", path={str(awaited)!r}))
except himalia.OutcomeUnknown as error:
    print("unknown:", error.code)
"""
    reply = world.gateway.http.post(f"v1/sessions/{made}/executions", json={"code": code, "wait_s": 0}).json()
    waits = world.orders.record.with_name("waits")
    eventually(waits.exists, "the server has the call", 60)
    waits.unlink()
    world.gateway.process.kill()
    world.gateway.process.wait()
    world.gateway.start()
    world.http = world.gateway.http
    execution = reply["id"]

    def ended():
        result = world.http.get(f"v1/executions/{execution}").json()
        return result if result["status"] not in ("queued", "running") else None

    result = eventually(ended, "the execution has ended", 60)
    assert result["text"].strip() == "unknown: outcome_unknown", result
    assert result["usage"]["tool_calls_unknown"] == 1, result["usage"]
    awaited.touch()
    # Not repeated: the server has no other call.
    assert not waits.exists()
    world.gateway.end(made)
