"""Two replicas share one grant of a person: each token is replaced once, by one of them, and a lost replica takes no refresh token with it."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from urllib.parse import parse_qs, urlsplit

import pytest
from oauth import AuthorizationServer
from replicas import Replica, Replicas
from waiting import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

CONFIG = """
private_addresses = ["{host}"]
credentials_key_file = "{key}"
[tool_servers.api]
openapi = "{description}"
base_url = "{url}"
credential = "person"
call_time = 120
[templates.tools]
kernelspec = "python3"
isolation = "namespaces"
memory = "512MiB"
tools = ["api"]
"""
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "An API that takes tokens", "version": "1"},
    "paths": {"/api": {"get": {"operationId": "look", "responses": {"200": {"description": "What it got."}}}}},
}
# Eight calls at once.
CALLS = """
import asyncio, himalia
replies = await asyncio.gather(*[himalia.call("api.look") for _ in range(8)])
print({str(reply) for reply in replies})
"""


class InSandboxes(Replica):
    """A replica whose kernels have the door to tools."""

    isolation = ()


class World:
    """An authorization server with an API, and two replicas, each with a session that calls it with the same credential."""

    def __init__(self, directory, postgres):
        self.server = AuthorizationServer()
        description = directory / "description.json"
        description.write_text(json.dumps(DESCRIPTION))
        key = directory / "keys"
        key.write_text("ab" * 32 + "\n")
        key.chmod(0o600)
        config = directory / "himalia.toml"
        config.write_text(CONFIG.format(host=self.server.host, url=self.server.url, description=description, key=key))
        try:
            self.replicas = Replicas(directory, postgres, 2, "--config", str(config), kind=InSandboxes)
        except BaseException:
            self.server.close()
            raise
        self.sessions = [self.session(replica) for replica in self.replicas.all]

    def session(self, replica):
        """A session that has the tool."""
        session = replica.http.post("v1/sessions", json={"template": "tools"}).json()["id"]
        servers = f"v1/sessions/{session}/tools/servers"
        eventually(lambda: replica.http.get(servers).json()["servers"][0]["ready"], "the server is there", 60)
        return session

    def grant(self, ttl):
        """Set the credential at the second replica, and grant it at the first. The first token is good for `ttl` seconds."""
        first, second = self.replicas.all
        body = {"kind": "oauth2", "grant": "authorization_code", "resource": self.server.api, "scope": "read", "hosts": [f"http://{self.server.host}"]}
        second.http.put("v1/credentials/person", json=body).raise_for_status()
        begun = first.http.post("v1/credentials/person/grant", json={"redirect_uri": "http://127.0.0.1:9/"}).json()["url"]
        self.server.control(ttl=ttl)
        back = self.server.consent(begun)
        answer = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        granted = first.http.post("v1/grants", json=answer)
        assert granted.status_code == 200, granted.text

    def wait_until_due(self, number=1):
        """Until the token has expired, as a replica says."""
        now = lambda: datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")  # noqa: E731
        listed = self.replicas[number].http.get("v1/credentials").json()["credentials"]
        expires = next(one["tokens"]["expires"] for one in listed if one["name"] == "person")
        eventually(lambda: expires < now(), "the token has expired", 60)

    def call(self, number):
        """What the calls of the session of a replica get; of eight, one text if they get the same."""
        http, session = self.replicas[number].http, self.sessions[number]
        reply = http.post(f"v1/sessions/{session}/executions", json={"code": CALLS}, params={"wait_s": 120}, timeout=150)
        assert reply.json().get("status") == "ok", reply.text
        return reply.json()["text"]

    def calls(self):
        """The same of both replicas at once."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(self.call, (0, 1)))

    def good(self, said):
        """What all calls have to get: the API was called with a token, which code does not see."""
        assert "Bearer ****" in said and said.count("Bearer") == 1, said
        assert not any(token in said for token in self.server.tokens()), said
        return True

    def refreshes(self):
        """Tokens that were given for a refresh token. One that is used twice is refused, and ends the grant."""
        counts = self.server.counts()
        assert "refused" not in counts, counts
        return counts.get("refresh_token", 0)

    def refreshed_by(self):
        """How many tokens each replica has got for the credential."""
        counts = []
        for replica in self.replicas.all:
            found = re.search(r'^himalia_token_requests_total\{outcome="got"\} (\d+)', replica.http.get("metrics").text, re.MULTILINE)
            counts.append(int(found[1]) if found else 0)
        return counts

    def close(self):
        self.replicas.stop()
        self.server.close()


@pytest.fixture
def world(tmp_path, postgres, kernel_python):
    """One for a test."""
    made = World(tmp_path, postgres)
    yield made
    made.close()


def test_a_token_is_replaced_once_for_all_replicas_and_by_those_that_are_left(world):
    world.grant(ttl=2)
    # Good for longer than the calls take.
    world.server.control(ttl=12)
    for number in (1, 2, 3):
        world.wait_until_due()
        before = world.refreshed_by()
        assert all(world.good(said) for said in world.calls())
        assert world.refreshes() == number
        got = [after - count for after, count in zip(world.refreshed_by(), before, strict=True)]
        assert sorted(got) == [0, 1], got
    # The one that has got the last refresh token.
    killed = got.index(1)
    world.replicas[killed].kill()
    world.wait_until_due(1 - killed)
    assert world.good(world.call(1 - killed))
    assert world.refreshes() == 4


def test_a_replica_that_is_killed_while_it_asks_leaves_the_refresh_token_to_the_other(world):
    world.grant(ttl=2)
    world.wait_until_due()
    world.server.control(ttl=3600, hold=True)
    http, session = world.replicas[0].http, world.sessions[0]
    http.post(f"v1/sessions/{session}/executions", json={"code": CALLS, "background": True}).raise_for_status()
    eventually(lambda: world.server.counts().get("held") == 1, "the first replica asks", 60)
    world.replicas[0].kill()
    world.server.control(hold=False)
    assert world.good(world.call(1))
    assert world.refreshes() == 1 and world.server.counts()["held"] == 1
