"""A credential without a token: other tools, models and skills of the session work, and what needs the token says how to grant it."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from levels import AtLevel, place
from models import Model
from oauth import CLIENT, SECRET, AuthorizationServer
from upstream import Weather
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

CONFIG = """
[tool_servers.weather]
openapi = "{weather}/openapi.json"

[tool_servers.guarded]
openapi = "{guarded}/openapi.json"
base_url = "{guarded}"
credential = "crm"

[models.small]
url = "{model}/v1"

[models.guarded]
url = "{guarded}/v1"
credential = "crm"

[templates.agent]
kernelspec = "python3"
{place}memory = "512MiB"
network = "allow"
allow = ["{host}", "{guarded_host}"]
credentials = ["crm"]
tools = ["weather", "guarded"]
tools_approval = false
models = ["small", "guarded"]
skills = true
"""

HELPERS = """
import himalia, urllib.error, urllib.request
async def said(waits):
    try:
        return f"ok {await waits}"
    except himalia.ToolError as error:
        return f"{type(error).__name__} {error.status} {error}"
def ask():
    try:
        with urllib.request.urlopen("http://crm.credential.internal/api", timeout=60) as reply:
            return "ok " + reply.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
"""

# How the token came to be missing, and the words that say what to do; None: it is got when it is needed.
STATES = {
    "not used yet": None,
    "never granted": "himalia auth crm",
    "not set": "does not exist",
    "its server is away": "cannot be added",
    "ended": "himalia auth crm",
    "revoked": "himalia auth crm",
}


class World:
    """An authorization server, servers of tools and models, and a gateway with a session."""

    def __init__(self, directory):
        self.server = AuthorizationServer()
        self.weather, self.guarded, self.model = Weather(), Weather(), Model()
        self.guarded_host = self.guarded.url.removeprefix("http://")
        text = CONFIG.format(
            weather=self.weather.url,
            guarded=self.guarded.url,
            model=self.model.url,
            host=self.server.host,
            guarded_host=self.guarded_host,
            place=place("namespaces"),
        )
        addresses = [f"--private-address={host}" for host in (self.server.host, self.guarded_host)]
        self.gateway = AtLevel(directory / "gateway", "namespaces", *addresses, extra=text)
        self.http = self.gateway.http
        manifest = {"name": "double", "version": "1.0.0", "kind": "code", "description": "Doubles.", "inputs": {"type": "object"}, "outputs": True}
        files = {"main.py": {"text": "def main(x):\n    return x * 2\n"}}
        made = self.http.post("v1/skills", json={"manifest": manifest, "files": files})
        assert made.status_code == 201, made.text
        self.session = self.gateway.session("agent")["id"]
        self.run(HELPERS)
        eventually(lambda: self.call("weather")[0] == 200, "the server without a credential is ready", 60)

    def run(self, code):
        """What code prints."""
        reply = self.http.post(f"v1/sessions/{self.session}/executions", json={"code": code, "wait_s": 100}, timeout=120)
        result = reply.json()
        assert result["error"] is None, result
        return result["text"].strip()

    def call(self, server):
        """A call over REST: status and body."""
        asked = {"tool": f"{server}.get_forecast", "arguments": {"city": "Oslo"}}
        reply = self.http.post(f"v1/sessions/{self.session}/tools/calls", json=asked)
        return reply.status_code, reply.text

    def call_by_mcp(self, server):
        """A call over MCP: whether it failed, and its text."""
        arguments = {"session": self.session, "tool": f"{server}.get_forecast", "arguments": {"city": "Oslo"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "call_tool", "arguments": arguments}}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        reply = self.http.post("mcp", json=message, headers=headers)
        assert reply.status_code == 200, reply.text
        text = next((line[5:] for line in reply.text.splitlines() if line.startswith("data:") and "result" in line), reply.text)
        result = json.loads(text)["result"]
        return result.get("isError", False), json.dumps(result)

    def set(self, grant, **more):
        """The credential, anew."""
        hosts = [f"http://{self.guarded_host}", f"http://{self.server.host}"]
        body = {"kind": "oauth2", "grant": grant, "base_url": f"http://{self.server.host}", "hosts": hosts, "scope": "read", **more}
        reply = self.http.put("v1/credentials/crm", json=body)
        assert reply.status_code == 200, reply.text

    def grant(self):
        """Does what a person and a browser do."""
        begun = self.http.post("v1/credentials/crm/grant", json={"redirect_uri": "http://127.0.0.1:9/"}).json()
        back = parse_qs(urlsplit(self.server.consent(begun["url"])).query)
        reply = self.http.post("v1/grants", json={name: values[0] for name, values in back.items()})
        assert reply.status_code == 200, reply.text

    def bring(self, state):
        """Makes the token go missing in this way."""
        if state == "not set":
            assert self.http.delete("v1/credentials/crm").status_code in (204, 404)
        elif state == "its server is away":
            self.set("client_credentials", token_url="http://127.0.0.1:1/token", client_id=CLIENT, client_secret=SECRET)
        elif state == "not used yet":
            self.server.control(ttl=3600)
            more = {"client_id": CLIENT, "client_secret": SECRET}
            self.set("client_credentials", issuer=self.server.url, resource=self.server.api, **more)
        else:
            self.server.control(ttl=2 if state == "ended" else 3600)
            self.set("authorization_code", resource=self.server.api)
        if state in ("ended", "revoked"):
            self.grant()
            assert self.run("print(ask())").startswith("ok ")
        if state == "ended":
            self.server.control(revoke=True)
            eventually(lambda: self.run("print(ask())").startswith("403 "), "the grant has ended", 60)
        if state == "revoked":
            assert self.http.delete("v1/credentials/crm/grant").status_code == 204

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.server.close()
        for server in (self.weather, self.guarded, self.model):
            server.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("missing"))
    yield made
    made.close()


def test_a_server_of_tools_without_a_token_says_how_to_grant_it_and_works_after(world):
    # Its tools are not listed before it has a token, and stay listed after.
    world.bring("never granted")

    def says_how():
        status, text = world.call("guarded")
        return status == 503 and "himalia auth crm" in text

    eventually(says_how, lambda: str(world.call("guarded")), 60)
    failed, text = world.call_by_mcp("guarded")
    assert failed and "himalia auth crm" in text, text
    said = world.run("print(await said(himalia.call('guarded.get_forecast', city='Oslo')))")
    assert said.startswith("ToolUnavailable 503 ") and "himalia auth crm" in said, said
    listed = world.http.get(f"v1/sessions/{world.session}/tools/servers").json()["servers"]
    by_name = {one["name"]: one for one in listed}
    assert by_name["weather"]["ready"] and not by_name["guarded"]["ready"]
    assert "himalia auth crm" in by_name["guarded"]["reason"]
    world.grant()
    eventually(lambda: world.call("guarded")[0] == 200, lambda: str(world.call("guarded")), 100)


@pytest.mark.parametrize("state", STATES)
def test_a_missing_token_stops_only_what_needs_it_and_says_what_to_do(world, state):
    words = STATES[state]
    world.bring(state)
    # Without it: tools by each door, a model, a skill.
    status, text = world.call("weather")
    assert status == 200, text
    failed, text = world.call_by_mcp("weather")
    assert not failed, text
    assert world.run("print(await said(himalia.call('weather.get_forecast', city='Oslo')))").startswith("ok ")
    assert world.run("print(await said(himalia.llm('echo hello', model='small')))") == "ok hello"
    assert world.run("print(await said(himalia.skills.run('double', x=4)))") == "ok 8"
    # With it.
    said = world.run("print(ask())")
    if words is None:
        assert said.startswith("ok ") and "Bearer ****" in said, said
        assert "panicked" not in world.gateway.log.read_text()
        return
    assert said.startswith("403 ") and words in said, said
    said = world.run("print(await said(himalia.llm('echo hello', model='guarded')))")
    assert not said.startswith("ok "), said
    assert "outcome" not in said.lower(), "nothing was sent, and that is known"
    if words.startswith("himalia auth"):
        assert words in said, said
    assert "panicked" not in world.gateway.log.read_text()
