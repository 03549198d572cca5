"""Two tenants of one gateway, from its configuration file to the kernels."""

import hashlib
import subprocess

import pytest
from agents import agent, run, text
from servers import Himalia, client_with
from waiting import eventually

ADA, BOB, EVE = (f"{name}-0123456789abcdef" for name in ("ada", "bob", "eve"))


class Caller:
    """A client that calls a gateway with a token."""

    def __init__(self, gateway, token):
        self.url, self.token = gateway.url, token
        self.http = client_with(gateway, token)

    def run(self, session, code):
        """The result of code."""
        reply = self.http.post(f"v1/sessions/{session}/executions", json={"code": code}, timeout=120)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def tool(self, name, **arguments):
        """Call a tool over MCP: whether it failed, and its text."""

        async def call():
            async with agent(self) as client:
                return await client.call_tool(name, arguments)

        result = run(call)
        return bool(result.is_error), text(result)


def configured(directory, settings):
    """A gateway with this configuration file."""
    directory.mkdir()
    (directory / "bob").write_text(f"{BOB}\n")
    (directory / "bob").chmod(0o600)
    (directory / "himalia.toml").write_text(settings)
    return Himalia(directory, "--config", str(directory / "himalia.toml"))


@pytest.fixture
def tenants(tmp_path, kernel_python):
    """A gateway with two tenants, and Ada, Bob and Eve."""
    digest = hashlib.sha256(ADA.encode()).hexdigest()
    gateway = configured(
        tmp_path / "gateway",
        f"""
[tenants.acme.tokens]
ada = "sha256:{digest}"
bob = {{ file = "bob" }}

[tenants.evil]
max_kernels = 1
tokens = {{ eve = "{EVE}" }}
""",
    )
    yield gateway, *(Caller(gateway, token) for token in (ADA, BOB, EVE))
    gateway.stop()


def test_tenants_share_a_gateway_and_nothing_else(tenants):
    gateway, ada, bob, eve = tenants
    assert ada.http.get("api/me").json()["identity"]["username"] == "acme/ada"
    hers = ada.http.put("v1/sessions/analysis", json={}).json()
    assert hers["owner"] == "acme"
    assert ada.run("analysis", "x = 6")["caller"] == "acme/ada"
    again = bob.run("analysis", "x * 7")
    assert again["caller"] == "acme/bob" and again["outputs"][0]["data"]["text/plain"] == "42"

    theirs = eve.http.put("v1/sessions/analysis", json={}).json()
    assert theirs["id"] != hers["id"]
    assert eve.run("analysis", "x")["error"]["name"] == "NameError"
    assert [one["id"] for one in eve.http.get("v1/sessions").json()["sessions"]] == [theirs["id"]]
    assert [one["id"] for one in eve.http.get("api/kernels").json()] == [theirs["id"]]
    assert eve.http.get(f"v1/sessions/{hers['id']}").status_code == 404
    assert eve.http.get(f"v1/executions/{again['id']}").status_code == 404
    over = eve.http.post("v1/sessions", json={})
    assert (over.status_code, over.json()["code"]) == (429, "kernel_limit")
    assert "tenant evil" in over.json()["detail"]
    assert {one["owner"] for one in gateway.http.get("v1/sessions").json()["sessions"]} == {"acme", "evil"}

    # Tools act as who calls them.
    failed, said = bob.tool("execute", session="analysis", code="x + 1")
    assert not failed and "7" in said
    failed, said = bob.tool("session", op="list")
    assert not failed and hers["id"] in said and theirs["id"] not in said
    failed, told = eve.tool("execute", session=hers["id"], code="x + 1")
    nothing = "11111111-2222-3333-4444-555555555555"
    nowhere, said = eve.tool("execute", session=nothing, code="x + 1")
    assert failed and nowhere and told.replace(hers["id"], nothing) == said
    assert eve.tool("execute", session=hers["id"][:8], code="x + 1")[0]

    # The next gateway knows whose they are.
    gateway.kill()
    gateway.start()
    ada, eve = Caller(gateway, ADA), Caller(gateway, EVE)
    eventually(lambda: ada.http.get("v1/sessions/analysis").json()["state"] == "idle", "its kernel is back", 60)
    assert ada.run("analysis", "x")["outputs"][0]["data"]["text/plain"] == "6"
    assert eve.http.get(f"v1/sessions/{hers['id']}").status_code == 404
    assert eve.http.post("v1/sessions", json={}).status_code == 429
    eve.http.delete("v1/sessions/analysis")
    assert eve.http.post("v1/sessions", json={}).status_code == 201
    log = gateway.log.read_text()
    assert not any(token in log for token in (ADA, BOB, EVE))


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('[tenants.a.tokens]\nx = "short-canary"', "tenants.a.tokens.x"),
        ('[tenants.a.tokens]\nx = "CANARY"\ny = "CANARY"', "tenants.a.tokens.y"),
        ('[tenants.a]\ntoken = "canary"', "token"),
        ('[tenants.operator.tokens]\nx = "CANARY"', "tenants.operator.tokens.x"),
    ],
)
def test_a_file_that_cannot_be_used_names_its_key_and_no_token(tmp_path, lines, key):
    canary = "0123456789abcdef-canary"
    file = tmp_path / "himalia.toml"
    file.write_text(lines.replace("CANARY", canary))
    gateway = [*Himalia.command(None), "serve", "--config", str(file), "--listen", "127.0.0.1:0"]
    ended = subprocess.run(
        [*gateway, "--data-dir", str(tmp_path / "data")], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode != 0
    assert key in ended.stderr and "canary" not in ended.stderr + ended.stdout
