"""Tokens of an authorization server: got, refreshed while sessions use them, granted by a person, revoked, and never in a sandbox."""

import os
import subprocess
import threading
from datetime import datetime, timezone
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from channels import Channels
from levels import AtLevel, place
from oauth import CLIENT, SECRET, AuthorizationServer
from test_credential_search import memory_has, processes_of
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

TEMPLATE = """
[templates.oauth]
kernelspec = "python3"
{place}network = "allow"
allow = ["{host}"]
credentials = ["machine", "person"]

[credentials.machine]
kind = "oauth2"
grant = "client_credentials"
issuer = "{url}"
resource = "{url}/api"
client_id = "{client}"
client_secret_file = "{secret}"
scope = "read"
hosts = ["http://{host}"]
"""

ASK = """
import json, urllib.error, urllib.request
def ask(name, path="/api"):
    try:
        with urllib.request.urlopen(f"http://{name}.credential.internal{path}", timeout=60) as reply:
            return "ok " + reply.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
"""


class World:
    """An authorization server, and a gateway whose sessions use its tokens."""

    level = "namespaces"

    def __init__(self, directory):
        self.server = AuthorizationServer()
        secret = directory / "client-secret"
        secret.write_text(SECRET)
        text = TEMPLATE.format(place=place(self.level), host=self.server.host, url=self.server.url, client=CLIENT, secret=secret)
        options = [f"--private-address={self.server.host}", "--log=trace"]
        self.gateway = AtLevel(directory / "gateway", self.level, *options, extra=text)
        self.http = self.gateway.http
        self.session = self.gateway.session("oauth")["id"]
        self.client = Channels(self.gateway, self.session)
        self.client.__enter__()
        self.client.run(ASK)

    def set_person(self):
        """A credential that a person grants; the gateway registers itself."""
        self.server.control(ttl=3600)
        body = {"kind": "oauth2", "grant": "authorization_code", "resource": self.server.api, "scope": "read", "hosts": [f"http://{self.server.host}"]}
        reply = self.http.put("v1/credentials/person", json=body)
        assert reply.status_code == 200 and reply.json()["tokens"]["state"] == "grant_needed", reply.text

    def begin(self):
        """The page where the person consents."""
        begun = self.http.post("v1/credentials/person/grant", json={"redirect_uri": "http://127.0.0.1:9/"})
        assert begun.status_code == 200, begun.text
        return begun.json()["url"]

    def grant(self):
        """A grant of `person`, with all that a browser does; the reply of the gateway."""
        return self.finish(self.server.consent(self.begin()))

    def finish(self, address):
        """What a browser that has come back does."""
        answer = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        return self.http.post("v1/grants", json=answer)

    def ask(self, name, path="/api"):
        """What a request of the session gets."""
        return self.client.run(f"print(ask({name!r}, {path!r}))", 120).text().strip()

    def tokens(self, name):
        """What is known of a credential's tokens."""
        listed = self.http.get("v1/credentials").json()["credentials"]
        return next(one["tokens"] for one in listed if one["name"] == name)

    def close(self):
        self.client.__exit__(None, None, None)
        self.gateway.stop()
        self.server.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("oauth"))
    yield made
    made.close()


def test_client_credentials_give_a_token_that_no_session_sees(world):
    before = world.server.counts().get("client_credentials", 0)
    for _ in range(3):
        said = world.ask("machine")
        assert said.startswith("ok ") and "Bearer ****" in said, said
        assert not any(token in said for token in world.server.tokens())
    assert world.server.counts()["client_credentials"] == before + 1
    assert world.tokens("machine")["state"] == "ready"


def test_a_token_that_expires_during_a_run_is_replaced(world):
    world.set_person()
    world.server.control(ttl=3)
    assert world.grant().status_code == 200
    before = world.server.counts().get("refresh_token", 0)

    def refreshed():
        assert world.ask("person").startswith("ok ")
        return world.server.counts().get("refresh_token", 0) >= before + 3

    eventually(refreshed, "the token is replaced three times, each by the refresh token of the one before", 120)
    assert "refused" not in world.server.counts(), world.server.counts()


def test_requests_at_once_make_one_refresh(world):
    world.set_person()
    world.server.control(ttl=2)
    assert world.grant().status_code == 200
    other = world.gateway.session("oauth")["id"]
    with Channels(world.gateway, other) as second:
        second.run(ASK)
        # The next token is good for long: one is needed for all of these.
        world.server.control(ttl=3600)
        before = world.server.counts().get("refresh_token", 0)
        expires = world.tokens("person")["expires"]
        eventually(lambda: expires < now(), "the token has expired")
        code = "import concurrent.futures as c\nwith c.ThreadPoolExecutor(16) as pool: print(*{one[:3] for one in pool.map(ask, ['person'] * 16)})"
        said = []
        threads = [threading.Thread(target=lambda client=client: said.append(client.run(code, 120).text().strip())) for client in (world.client, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    world.gateway.end(other)
    assert said == ["ok", "ok"]
    assert world.server.counts()["refresh_token"] == before + 1


def now():
    """The time as the API writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def test_a_person_grants_once_and_a_revoked_grant_says_what_to_do(world):
    world.set_person()
    said = world.ask("person")
    assert said.startswith("403 ") and "himalia auth person" in said, said
    begun = world.begin()
    address = world.server.consent(begun)
    assert world.finish(address).json()["tokens"]["granted_by"]
    again = world.finish(address)
    assert again.status_code == 400 and "used already" in again.text, again.text
    assert world.ask("person").startswith("ok ")
    refused = world.finish(world.server.consent(world.begin(), agrees=False))
    assert refused.status_code == 409 and "access_denied" in refused.text, refused.text
    assert world.ask("person").startswith("ok "), "the grant before counts still"
    # Short-lived from now on, and revoked at the server.
    world.server.control(ttl=2)
    assert world.grant().status_code == 200
    world.server.control(revoke=True)
    eventually(lambda: world.ask("person").startswith("403 "), "the next token is refused")
    said = world.ask("person")
    assert "its grant has ended" in said and "himalia auth person" in said, said
    assert world.tokens("person")["state"] == "ended"
    assert world.grant().status_code == 200
    assert world.ask("person").startswith("ok ")
    assert world.http.delete("v1/credentials/person/grant").status_code == 204
    assert world.ask("person").startswith("403 ")


def test_a_terminal_grants(world):
    world.set_person()
    url, token = world.gateway.url, world.gateway.token
    command = [os.environ["HIMALIA_BIN"], "auth", "person", "--url", url]
    environment = {**os.environ, "HIMALIA_TOKEN": token}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as program:
        try:
            back = world.server.consent(program.stdout.readline().strip())
            assert httpx.get(back, trust_env=False).status_code == 200, back
            said, errors = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 0, (said, errors)
    assert said.startswith("person is granted with the scopes read"), said
    assert not any(token in said + errors for token in world.server.tokens())
    assert world.ask("person").startswith("ok ")


def test_no_token_is_in_the_sandbox_or_in_what_the_gateway_writes(world):
    world.set_person()
    assert world.grant().status_code == 200
    said = world.ask("person")
    assert said.startswith("ok ")
    tokens = [token.encode() for token in world.server.tokens()] + [SECRET.encode()]
    assert len(tokens) > 10
    assert not any(token.decode() in world.http.get("v1/credentials").text for token in tokens)
    mark = b"credential.internal"
    seen = set().union(*(memory_has(pid, [*tokens, mark]) for pid in processes_of(world, world.session, world.client)))
    assert seen == {mark}, "the search finds what is there, and no token"
    found = {}
    for file in [world.gateway.log, *(world.gateway.directory / "data").rglob("*")]:
        if file.is_file():
            content = file.read_bytes()
            found[str(file)] = {token for token in [*tokens, mark, b"authorization_code"] if token in content}
    leaked = {name: texts & set(tokens) for name, texts in found.items() if texts & set(tokens)}
    assert not leaked, leaked
    assert any(b"authorization_code" in texts for name, texts in found.items() if "himalia.db" in name), found
    log = world.gateway.log.read_text()
    assert " TRACE " in log and "finish_grant" in log
