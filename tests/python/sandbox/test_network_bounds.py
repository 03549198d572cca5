"""What bounds the network of sessions and of tenants, and what is counted."""

import pytest
from hosts import Host, Names
from levels import LEVELS, place
from servers import client_with
from test_network import FETCH, Privileged
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

ADA = "ada-0123456789abcdef"
MIB = 1 << 20
SETTINGS = """
[templates.reach]
kernelspec = "python3"
{place}memory = "512MiB"
network = "allow"
allow = ["web.test:{port}"]

[tenants.acme]
network_per_day = "1MiB"
network_connections = 4
tokens = {{ ada = "{token}" }}
"""


class Bounded:
    """A host, a gateway with a tenant, and clients of both kinds."""

    def __init__(self, directory, level):
        self.host = Host("0.0.0.0", pages={"/": b"hello", "/large": b"x" * (2 * MIB)})
        names = Names(directory)
        names["web.test"] = ["127.0.0.2"]
        self.url = f"http://web.test:{self.host.port}"
        settings = SETTINGS.format(place=place(level), port=self.host.port, token=ADA)
        options = (f"--private-address=127.0.0.2:{self.host.port}", "--network-session-bytes=3MiB")
        self.gateway = Privileged.having(names, settings)(directory / "gateway", level, *options)

    def tenant(self):
        """A client of the tenant."""
        return client_with(self.gateway, ADA)

    def session(self, http):
        """A new session of a caller."""
        reply = http.post("v1/sessions", json={"template": "reach"})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    def asks(self, http, session, code):
        """What an expression of a session is, as text."""
        reply = http.post(f"v1/sessions/{session}/executions", json={"code": f"{FETCH}\nprint({code})"}, params={"wait_s": 60})
        assert reply.status_code in (200, 201), reply.text
        return reply.json()["text"].strip()


@pytest.fixture(params=LEVELS[:1])
def bounded(request, tmp_path, kernel_python):
    """One for each test: what is used up stays so."""
    made = Bounded(tmp_path, request.param)
    yield made
    made.gateway.stop()
    made.host.close()


def test_a_day_of_a_tenant_ends_for_all_its_sessions_and_no_others(bounded):
    acme, operator = bounded.tenant(), bounded.gateway.http
    [one, other] = [bounded.session(acme) for _ in range(2)]
    assert bounded.asks(acme, one, f"fetch('{bounded.url}/')") == "hello"
    # It is cut in the middle; the next one learns why.
    assert len(bounded.asks(acme, one, f"fetch('{bounded.url}/large')")) < 2 * MIB
    limit = f"503 egress_limit: the limit of {MIB} bytes a day of the tenant acme is reached"
    for session in (one, other):
        assert bounded.asks(acme, session, f"fetch('{bounded.url}/')").startswith(limit)
    mine = bounded.session(operator)
    assert bounded.asks(operator, mine, f"len(fetch('{bounded.url}/large'))") == str(2 * MIB)
    usage = acme.get("v1/usage").json()
    assert usage["network_bytes"]["limit"] == MIB <= usage["network_bytes"]["used"], usage
    assert usage["network_received_bytes"] >= MIB and usage["network_sent_bytes"] > 0, usage
    used = acme.get(f"v1/sessions/{one}/usage").json()
    assert used["network_connections"] == 3 and used["network_received_bytes"] >= MIB, used
    metrics = operator.get("metrics").text
    assert 'himalia_network_connections_total{outcome="limit"} 3' in metrics, metrics
    assert "himalia_network_received_bytes_total 3" in metrics
    # Another process of the gateway knows it too.
    bounded.gateway.kill()
    bounded.gateway.start()
    acme, operator = bounded.tenant(), bounded.gateway.http
    eventually(lambda: bounded.asks(acme, other, f"fetch('{bounded.url}/')").startswith(limit), "the day is still over", 60)
    # A session has its own bound over its life.
    assert operator.get(f"v1/sessions/{mine}/usage").json()["network_received_bytes"] >= 2 * MIB
    assert len(bounded.asks(operator, mine, f"fetch('{bounded.url}/large')")) < 2 * MIB
    refused = bounded.asks(operator, mine, f"fetch('{bounded.url}/')")
    assert refused.startswith(f"503 egress_limit: the limit of {3 * MIB} bytes of this session is reached"), refused
    for http, session in ((acme, one), (acme, other), (operator, mine)):
        assert http.delete(f"v1/sessions/{session}").status_code == 204


def test_a_session_leaves_connections_to_the_others_of_its_tenant(bounded):
    acme = bounded.tenant()
    [one, other] = [bounded.session(acme) for _ in range(2)]
    port = bounded.host.port
    tunnel = f"""
def tunnel():
    raw = http.client.HTTPConnection("127.0.0.1", 3128, timeout=60)
    raw.set_tunnel("web.test", {port})
    raw.connect()
    return raw
held = [tunnel() for _ in range(3)]
"""
    code = f"{FETCH}{tunnel}"
    assert acme.post(f"v1/sessions/{one}/executions", json={"code": code}, params={"wait_s": 60}).json()["error"] is None
    refused = bounded.asks(acme, one, f"fetch('{bounded.url}/')")
    assert refused.startswith("503 egress_limit: the limit of 3 connections to the network of acme/"), refused
    assert bounded.asks(acme, other, f"fetch('{bounded.url}/')") == "hello"
    assert acme.get("v1/usage").json()["network_connections"] == {"used": 3, "limit": 4}
    acme.post(f"v1/sessions/{one}/executions", json={"code": "for one in held: one.close()"}, params={"wait_s": 60})
    eventually(lambda: bounded.asks(acme, one, f"fetch('{bounded.url}/')") == "hello", "there is room again")
    for session in (one, other):
        acme.delete(f"v1/sessions/{session}")
