"""The network of a session that has a list of hosts: what is on it is reached with ordinary clients, and nothing else in any way."""

import json
import subprocess
from pathlib import Path

import pytest
from channels import Channels
from hosts import Host, Names, certificate
from levels import CONTAINERS, LEVELS, AsOrdinaryUser, AtLevel, place
from test_packages import NAME, wheel
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

TEMPLATES = """
[templates.reach]
kernelspec = "python3"
{place}memory = "512MiB"
pids = 100
network = "allow"
allow = ["web.test:{web}", "web2.test:{web}", "secure.test:{tls}", "*.below.test:{web}", "127.0.0.3:{web}",
         {{ host = "reads.test", ports = [{web}], methods = ["GET"] }}]

[templates.ready]
kernelspec = "python3"
{place}memory = "512MiB"
network = "allow"
allow = ["web.test:{web}", "web2.test:{web}"]
pool.size = 1
"""

# In a session: what a URL gives, or how it fails, in one line.
FETCH = """
import http.client, socket, ssl, urllib.error, urllib.request
def fetch(url, data=None):
    try:
        with urllib.request.urlopen(url, data, timeout=20, context=ssl._create_unverified_context() if url.startswith("https") else None) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason} | {error.read().decode()}"
    except Exception as error:
        return f"{type(error).__name__} {error}"
"""


class WithNames:
    """A gateway with templates and names of its own."""

    names = templates = None

    @classmethod
    def having(cls, names, templates):
        """The same class of gateways, with these."""
        return type(cls.__name__, (cls,), {"names": names, "templates": templates})

    def start(self):
        """The templates of this test come behind those of the level."""
        file = Path(self.directory) / "himalia.toml"
        if self.templates not in file.read_text():
            file.write_text(file.read_text() + self.templates)
        super().start()

    def command(self):
        """In a mount namespace with these names."""
        return self.names.around(super().command())


class Privileged(WithNames, AtLevel):
    """Of root."""


class Ordinary(WithNames, AsOrdinaryUser):
    """Of an ordinary user."""


class World:
    """Hosts, and a gateway whose sessions may reach some of them."""

    def __init__(self, directory, level, ordinary=None):
        # Images of kernels have none.
        self.has_curl = level not in CONTAINERS
        simple = f"/simple/{NAME.replace('_', '-')}/"
        file = f"{NAME}-1.0-py3-none-any.whl"
        pages = {"/": b"hello", simple: f'<a href="/{file}">{file}</a>'.encode(), f"/{file}": wheel()}
        # All addresses of loopback.
        self.web = Host("0.0.0.0", pages=pages)
        self.other = Host("0.0.0.0", pages={"/": b"another port"})
        self.tls = Host("0.0.0.0", certificate(directory, "secure.test", "hidden.test"), pages={"/": b"safe"})
        pages["/away"] = f"http://hidden.test:{self.web.port}/"
        pages["/inside"] = f"http://inside.test:{self.web.port}/"
        self.names = Names(directory)
        for name in ("web.test", "secure.test", "hidden.test", "reads.test", "a.below.test", "below.test"):
            self.names[name] = ["127.0.0.2"]
        self.names["web2.test"] = ["127.0.0.2"]
        self.names["inside.test"] = ["127.0.0.4"]
        private = [f"--private-address={address}:{host.port}" for address in ("127.0.0.2", "127.0.0.3") for host in (self.web, self.other, self.tls)]
        templates = TEMPLATES.format(web=self.web.port, tls=self.tls.port, place=place(level))
        if ordinary:
            own = Path(subprocess.run(["mktemp", "-d", str(ordinary / "XXXXXX")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
            self.gateway = Ordinary.having(self.names, templates)(own, level, ordinary, *private, env={"HOME": str(own)})
        else:
            self.gateway = Privileged.having(self.names, templates)(directory / "gateway", level, *private)

    def session(self, template="reach", **body):
        """A new session."""
        return self.gateway.session(template, **body)["id"]

    def asks(self, client, code):
        """What an expression of a session is, as text."""
        done = client.run(f"{FETCH}\nprint({code})", 60)
        return done.text().strip() or str(done.content)

    def close(self):
        """Ends all."""
        self.gateway.stop()
        for host in (self.web, self.other, self.tls):
            host.close()


def world_at(request, directory):
    """One at the level of a test."""
    level = request.param
    ordinary = request.getfixturevalue("ordinary_place") if "ordinary" in level else None
    return World(directory, level, ordinary)


@pytest.fixture(scope="module", params=LEVELS)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = world_at(request, tmp_path_factory.mktemp("network"))
    yield made
    made.close()


@pytest.fixture(params=LEVELS)
def own_world(request, tmp_path, kernel_python):
    """One for a test that kills its gateway."""
    made = world_at(request, tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(world):
    """A client of a session that has a list."""
    session = world.session()
    with Channels(world.gateway, session) as client:
        yield client
    world.gateway.end(session)


def test_what_is_on_the_list_is_reached_with_ordinary_clients(world, client):
    web, tls = world.web.port, world.tls.port
    assert world.asks(client, f"fetch('http://web.test:{web}/')") == "hello"
    assert world.asks(client, f"fetch('http://a.below.test:{web}/')") == "hello"
    assert world.asks(client, f"fetch('http://127.0.0.3:{web}/')") == "hello"
    assert world.asks(client, f"fetch('https://secure.test:{tls}/')") == "safe"
    assert ("GET", "/", [f"web.test:{web}"]) in world.web.requests
    socks = f"""
c = socket.create_connection(("127.0.0.1", 3128), 20)
c.sendall(b"\\x05\\x01\\x00"); assert c.recv(2) == b"\\x05\\x00"
c.sendall(b"\\x05\\x01\\x00\\x03\\x08web.test" + ({web}).to_bytes(2, "big")); assert c.recv(10)[1] == 0
c.sendall(b"GET / HTTP/1.0\\r\\nHost: web.test:{web}\\r\\n\\r\\n"); print(c.makefile().read()[-5:])
"""
    assert client.run(FETCH + socks, 60).text().strip() == "hello"
    if world.has_curl:
        shell = "import subprocess; print(subprocess.run({!r}, shell=True, capture_output=True, text=True).stdout)"
        curl = f"curl -s http://web.test:{web}/; curl -sk https://secure.test:{tls}/; curl -s --noproxy '' -x socks5h://127.0.0.1:3128 http://web.test:{web}/"
        assert client.run(shell.format(curl), 60).text().strip() == "hellosafehello"
    done = client.run(f"%pip install --index-url http://web.test:{web}/simple --trusted-host web.test {NAME}", 120)
    assert "Successfully installed" in done.text(), (done.text(), done.text("stderr"))
    assert client.run(f"import {NAME}; print({NAME}.ANSWER)").text().strip() == "42"


def test_a_refusal_names_the_host_and_the_list(world, client):
    text = world.asks(client, f"fetch('http://hidden.test:{world.web.port}/')")
    assert text.startswith(f"403 egress_denied: hidden.test:{world.web.port} is not on this session's list (allowed: web.test:{world.web.port}, "), text
    text = world.asks(client, "fetch('https://example.org/')")
    assert "Tunnel connection failed: 403 egress_denied: example.org:443 is not on this session's list" in text, text
    failed = client.run(f"%pip install --index-url https://hidden.test:{world.tls.port}/simple --retries 1 {NAME}-other", 120)
    assert "egress_denied: hidden.test" in failed.text() + failed.text("stderr"), failed


@pytest.mark.parametrize(
    "url",
    [
        "http://web.test:{other}/",
        "http://127.0.0.2:{web}/",
        "http://below.test:{web}/",
        "http://web.test.hidden.test:{web}/",
        "http://inside.test:{web}/",
        "http://web.test:{web}/away",
        "http://web.test:{web}/inside",
        "https://hidden.test:{tls}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:{web}/",
        "http://[::ffff:127.0.0.2]:{web}/",
        "http://2130706434:{web}/",
    ],
)
def test_other_ports_hosts_addresses_and_redirects_are_refused(world, client, url):
    before = len(world.other.requests)
    text = world.asks(client, f"fetch({url.format(web=world.web.port, other=world.other.port, tls=world.tls.port)!r})")
    assert "egress_denied" in text or "egress_request" in text, text
    assert len(world.other.requests) == before


def test_methods_are_those_of_the_rule(world, client):
    url = f"http://reads.test:{world.web.port}/"
    assert world.asks(client, f"fetch({url!r})") == "hello"
    assert f"egress_denied: POST reads.test:{world.web.port}" in world.asks(client, f"fetch({url!r}, b'x')")
    # Nothing could read a method in it.
    raw = f"""c = http.client.HTTPConnection("127.0.0.1", 3128); c.set_tunnel("reads.test", {world.web.port}); c.request("GET", "/")"""
    assert "egress_denied: reads.test" in str(client.run(f"{FETCH}\n{raw}").content)


def test_there_is_no_way_but_the_proxy(world, client):
    probe = f"""
import os, socket
def tries(what, call):
    try:
        return f"{{what}} REACHED {{call()}}"
    except OSError as error:
        return f"{{what}} {{type(error).__name__}}"
def udp(address, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", address)
        return "sent"
print(sorted(os.listdir("/sys/class/net")) if os.path.exists("/sys/class/net") else [name for _, name in socket.if_nameindex()])
print(tries("tcp", lambda: socket.create_connection(("127.0.0.2", {world.web.port}), 5)))
print(tries("public", lambda: socket.create_connection(("1.1.1.1", 443), 5)))
print(tries("ipv6", lambda: socket.create_connection(("2606:4700::1111", 443), 5)))
print(tries("dns", lambda: socket.getaddrinfo("web.test", 80)))
print(tries("udp", lambda: udp(("1.1.1.1", 53))))
print(tries("udp6", lambda: udp(("2606:4700::1111", 53), socket.AF_INET6)))
print(tries("metadata", lambda: socket.create_connection(("169.254.169.254", 80), 5)))
"""
    before = len(world.web.requests)
    text = client.run(probe, 90).text()
    assert text.splitlines()[0] == "['lo']", text
    assert "REACHED" not in text and len(text.splitlines()) == 8, text
    # Without the proxy's variables, or with every host excepted from it, nothing is reached.
    fetch = f"import urllib.request as r; print('REACHED', r.urlopen('http://web.test:{world.web.port}/', timeout=10).read())"
    for change in ("{k: v for k, v in os.environ.items() if k.lower() not in ('http_proxy', 'all_proxy')}", "{**os.environ, 'NO_PROXY': '*', 'no_proxy': '*'}"):
        code = f"import os, subprocess, sys; print(subprocess.run([sys.executable, '-c', {fetch!r}], env={change}, capture_output=True, text=True))"
        text = client.run(code, 60).text()
        assert "REACHED b" not in text and ("ame resolution" in text or "not known" in text), text
    assert len(world.web.requests) == before


def test_a_name_that_gets_another_address_is_refused_from_then_on(world, client):
    url = f"http://web2.test:{world.web.port}/"
    assert world.asks(client, f"fetch({url!r})") == "hello"
    try:
        for address in ("127.0.0.4", "::1", "169.254.169.254"):
            world.names["web2.test"] = [address]
            text = world.asks(client, f"fetch({url!r})")
            assert "egress_denied: web2.test" in text and "which no list allows" in text, text
    finally:
        world.names["web2.test"] = ["127.0.0.2"]
    assert world.asks(client, f"fetch({url!r})") == "hello"


def test_tls_for_another_server_than_the_tunnel_is_for_is_refused(world, client):
    code = f"""
raw = http.client.HTTPConnection("127.0.0.1", 3128, timeout=20)
raw.set_tunnel("secure.test", {world.tls.port})
raw.connect()
context = ssl._create_unverified_context()
try:
    context.wrap_socket(raw.sock, server_hostname="hidden.test")
    print("REACHED")
except OSError as error:
    print(error)
"""
    text = client.run(FETCH + code, 60).text()
    assert "unrecognized name" in text.lower().replace("_", " "), text


def test_a_caller_can_only_take_away(world):
    web = world.web.port
    session = world.session(network={"allow": [f"web.test:{web}"]})
    shown = world.gateway.show(session)
    assert (shown["network"], shown["allow"]) == ("allow", [f"web.test:{web}"])
    with Channels(world.gateway, session) as client:
        assert world.asks(client, f"fetch('http://web.test:{web}/')") == "hello"
        assert "egress_denied" in world.asks(client, f"fetch('http://web2.test:{web}/')")
    # A fork reaches the same, also when its parent has ended.
    forked = world.gateway.http.post(f"v1/sessions/{session}/fork", json={"count": 1, "policy": "report"})
    branch = forked.json()["branches"][0]["session"]["id"]
    world.gateway.end(session)
    with Channels(world.gateway, branch) as client:
        assert eventually(lambda: world.asks(client, f"fetch('http://web.test:{web}/')") == "hello", "the fork reaches it")
        assert "egress_denied" in world.asks(client, f"fetch('http://web2.test:{web}/')")
    world.gateway.end(branch)
    none = world.session(network="none")
    with Channels(world.gateway, none) as client:
        assert "egress" not in world.asks(client, f"fetch('http://web.test:{web}/')")
    world.gateway.end(none)
    for body, code in (
        ({"template": "reach", "network": {"allow": ["web.test:22"]}}, "network_unsupported"),
        ({"template": "reach", "network": {"allow": ["*"]}}, "network_unsupported"),
        ({"template": "plain", "network": "allow"}, "network_unsupported"),
        ({"template": "plain", "network": {"allow": [f"web.test:{web}"]}}, "network_unsupported"),
    ):
        reply = world.gateway.http.post("v1/sessions", json=body)
        assert (reply.status_code // 100, reply.json()["code"]) == (4, code), reply.text
    bad = world.gateway.http.post("v1/sessions", json={"template": "reach", "network": {"allow": ["http://a/"]}})
    assert bad.status_code == 400 and "network" in bad.text and "http://a/" in bad.text, bad.text


def test_a_pooled_kernel_has_the_list_of_its_session(world):
    web = world.web.port
    eventually(lambda: any(pool["ready"] for pool in world.gateway.http.get("v1/pools").json()["pools"] if pool["template"] == "ready"), "a pooled kernel", 120)
    session = world.session("ready", network={"allow": [f"web.test:{web}"]})
    assert world.gateway.show(session)["started_by"] == "pool", world.gateway.show(session)["start_reason"]
    with Channels(world.gateway, session) as client:
        assert world.asks(client, f"fetch('http://web.test:{web}/')") == "hello"
        assert "egress_denied" in world.asks(client, f"fetch('http://web2.test:{web}/')")
    world.gateway.end(session)


def test_a_kill_of_the_gateway_leaves_the_list_as_it_was(own_world):
    world = own_world
    web = world.web.port
    session = world.session(network={"allow": [f"web.test:{web}"]})
    away = f"""
import threading, time
answers = []
def ask():
    while len(answers) < 400:
        answers.append(fetch("http://web.test:{web}/"))
        time.sleep(0.05)
threading.Thread(target=ask, daemon=True).start()
"""
    with Channels(world.gateway, session) as client:
        client.run(FETCH + away)
        world.gateway.kill()
    world.gateway.start()
    with Channels(world.gateway, session) as client:
        eventually(lambda: "hello" in client.run("print(answers[-1])").text(), "the network is back", 60)
        assert world.asks(client, f"fetch('http://web.test:{web}/')") == "hello"
        assert "egress_denied" in world.asks(client, f"fetch('http://web2.test:{web}/')")
        # Nothing but the list was ever reached, and no request hung.
        assert set(client.run("print('\\n'.join({one.split()[0] for one in answers}))").text().split()) <= {"hello", "503", "502", "RemoteDisconnected", "URLError", "ConnectionResetError"}
    assert world.gateway.show(session)["allow"] == [f"web.test:{web}"]


def test_a_level_that_cannot_enforce_a_list_refuses_it(tmp_path, kernel_python):
    file = tmp_path / "himalia.toml"
    file.write_text('[templates.reach]\nkernelspec = "python3"\nnetwork = "allow"\nallow = ["pypi.org"]\n')
    from servers import Himalia

    gateway = Himalia(tmp_path / "gateway", "--config", str(file))
    try:
        reply = gateway.http.post("v1/sessions", json={"template": "reach"})
        assert reply.json()["code"] == "network_unsupported", reply.text
        assert "level none" in reply.text
    finally:
        gateway.stop()


def events_of(world, session, kind, count):
    """The first records of one kind in the log of a session."""
    found = []
    with world.gateway.http.stream("GET", f"v1/sessions/{session}/events", params={"after": 0}) as reply:
        for line in reply.iter_lines():
            record = json.loads(line[6:]) if line.startswith("data: ") else {}
            if record.get("event") == kind:
                found.append(record)
            if len(found) == count:
                return found
    raise AssertionError(f"the stream ended after {found}")


def test_connections_are_records_and_refusals_are_hints(world):
    session = world.session()
    web = world.web.port

    def execute(code):
        reply = world.gateway.http.post(f"v1/sessions/{session}/executions", json={"code": FETCH + code}, params={"wait_s": 60})
        assert reply.status_code in (200, 201), reply.text
        return reply.json()

    done = execute(f"print(fetch('http://web.test:{web}/'))")
    assert "hello" in done["text"] and done["error"] is None, done
    failed = execute(f"urllib.request.urlopen('http://hidden.test:{web}/')")
    refusal = f"egress_denied: hidden.test:{web} is not on this session's list"
    assert failed["error"]["hint"].startswith(refusal), failed["error"]
    records = events_of(world, session, "network", 2)
    [reached, refused] = [record["detail"] for record in records]
    assert (reached["host"], reached["port"], reached["outcome"]) == ("web.test", web, "ended"), reached
    assert reached["sent_bytes"] > 20 and reached["received_bytes"] > 5, reached
    assert (refused["host"], refused["outcome"], refused["received_bytes"]) == ("hidden.test", "refused", 0), refused
    assert refused["reason"].startswith(refusal) and records[1]["execution_id"] == failed["id"], records
    world.gateway.end(session)


def test_a_list_becomes_shorter_at_once(world):
    session, web = world.session(), world.web.port
    address = f"v1/sessions/{session}"
    with Channels(world.gateway, session) as client:
        # A tunnel that is open, and carries nothing.
        client.run(FETCH + f"raw = http.client.HTTPConnection('127.0.0.1', 3128, timeout=60); raw.set_tunnel('web2.test', {web}); raw.connect()")
        forked = world.gateway.http.post(f"{address}/fork", json={"count": 1, "policy": "report"})
        branch = forked.json()["branches"][0]["session"]["id"]
        for wider in ({"allow": [f"web.test:{web}", "pypi.org"]}, "allow"):
            assert world.gateway.http.patch(address, json={"network": wider}).status_code // 100 == 4
        changed = world.gateway.http.patch(address, json={"network": {"allow": [f"web.test:{web}"]}})
        assert changed.status_code == 200 and changed.json()["allow"] == [f"web.test:{web}"], changed.text
        assert client.run("print(raw.sock.recv(1))", 60).text().strip() == "b''"
        assert world.asks(client, f"fetch('http://web.test:{web}/')") == "hello"
        assert "egress_denied" in world.asks(client, f"fetch('http://web2.test:{web}/')")
        assert world.gateway.show(branch)["allow"] == [f"web.test:{web}"]
        world.gateway.end(branch)
        # Not back.
        assert world.gateway.http.patch(address, json={"network": {"allow": [f"web2.test:{web}"]}}).status_code // 100 == 4
        assert world.gateway.http.patch(address, json={"network": "none"}).json()["allow"] == []
        assert "egress_denied" in world.asks(client, f"fetch('http://web.test:{web}/')")
    world.gateway.end(session)
