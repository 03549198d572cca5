"""Case A3: SIGHUP has a running gateway read its tokens again; whose token is gone loses its connections at once."""

import json
import signal
import threading

import httpx
import pytest
from servers import Himalia, client_with
from waiting import eventually
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

ADA, NEXT, BOB, EVE = (f"{name}-0123456789abcdef" for name in ("ada", "next", "bob", "eve"))


class Stream:
    """Events of a session, read until they end."""

    def __init__(self, gateway, token, session):
        self.first, self.over = threading.Event(), threading.Event()
        self.http = client_with(gateway, token)
        self.thread = threading.Thread(target=self.read, args=(f"v1/sessions/{session}/events?after=0",), daemon=True)
        self.thread.start()
        assert self.first.wait(60)

    def read(self, path):
        try:
            with self.http.stream("GET", path, timeout=None) as reply:
                for _ in reply.iter_lines():
                    self.first.set()
        except httpx.HTTPError:
            pass
        self.over.set()


def configure(gateway, **tokens):
    lines = "".join(f"{caller} = {json.dumps(token)}\n" for caller, token in tokens.items())
    (gateway / "himalia.toml").write_text(f"[tenants.acme.tokens]\n{lines}")


@pytest.fixture
def gateway(tmp_path, kernel_python):
    directory = tmp_path / "gateway"
    directory.mkdir()
    configure(directory, ada=ADA, bob=BOB)
    # The parent of the tests may ignore it, as nohup does, and programs that it starts inherit that.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        own = Himalia(directory, "--config", str(directory / "himalia.toml"))
    finally:
        signal.signal(signal.SIGHUP, before)
    yield own
    own.stop()


def told(gateway, text, times=1):
    gateway.process.send_signal(signal.SIGHUP)
    eventually(lambda: gateway.log.read_text().count(text) >= times, lambda: gateway.log.read_text()[-2000:])


def test_who_has_no_token_any_more_loses_its_connections_and_nothing_else(gateway):
    ada, bob = client_with(gateway, ADA), client_with(gateway, BOB)
    session = ada.post("v1/sessions", json={}).json()["id"]
    run = {"code": "x = 41"}
    assert ada.post(f"v1/sessions/{session}/executions", json=run).json()["status"] == "ok"
    hers, his, operators = (Stream(gateway, token, session) for token in (ADA, BOB, gateway.token))
    with connect(gateway.websocket_url(f"api/kernels/{session}/channels?token={ADA}"), proxy=None) as socket:
        # Nothing has changed, or the file is no configuration: no token is lost.
        told(gateway, "no token has changed")
        (gateway.directory / "himalia.toml").write_text("[tenants.acme.tokens]\nada = 'short'\n")
        told(gateway, "the tokens stay as they were")
        configure(gateway.directory, ada=ADA, bob=BOB)
        with (gateway.directory / "himalia.toml").open("a") as file:
            file.write(f"[tenants.evil.tokens]\neve = {json.dumps(EVE)}\n")
        told(gateway, "a tenant that is new needs a restart")
        assert ada.get("v1/sessions").status_code == 200 and client_with(gateway, EVE).get("v1/sessions").status_code == 401
        assert not hers.over.is_set()

        configure(gateway.directory, ada=NEXT, bob=BOB)
        told(gateway, "a token is revoked")
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(timeout=60)
    assert hers.over.wait(60)
    assert client_with(gateway, ADA).get("v1/sessions").status_code == 401
    again = client_with(gateway, NEXT).post(f"v1/sessions/{session}/executions", json={"code": "x + 1"}).json()
    assert again["outputs"][0]["data"]["text/plain"] == "42" and again["caller"] == "acme/ada"
    assert bob.get(f"v1/sessions/{session}").status_code == 200
    assert not his.over.is_set() and not operators.over.is_set()

    # The operator's, too.
    before = gateway.token
    gateway.token_file.write_text("the-operators-next-token-0123456789")
    told(gateway, "a token is revoked", 2)
    assert operators.over.wait(60)
    assert client_with(gateway, before).get("v1/sessions").status_code == 401
    gateway.token_file.write_text(before)
    told(gateway, "a token is revoked", 3)
    assert client_with(gateway, before).get("v1/sessions").status_code == 200
    log = gateway.log.read_text()
    assert not any(token in log for token in (ADA, NEXT, BOB, EVE, before)), "tokens are in no log"
    for line in ('caller="acme/ada"', 'caller="operator"'):
        assert line in log, log[-3000:]
