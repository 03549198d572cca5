"""`himalia token`: created, used, listed and revoked while the gateway runs, and after a restart."""

import json
import os
import subprocess

import pytest
from servers import Himalia, client_with
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

CONFIGURED = "ada-0123456789abcdef"


def token(gateway, *args, by=None):
    at = ["--url", gateway.url, *(["--token", by] if by else ["--token-file", str(gateway.token_file)])]
    command = [os.environ["HIMALIA_BIN"], "token", *args, *at]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def gateway(tmp_path, kernel_python):
    directory = tmp_path / "gateway"
    directory.mkdir()
    config = directory / "himalia.toml"
    # One tenant has a token in the configuration, the other has none.
    config.write_text(f"[tenants.acme.tokens]\nada = {json.dumps(CONFIGURED)}\n[tenants.other]\n")
    own = Himalia(directory, "--config", str(config))
    yield own
    own.stop()


def test_a_token_is_made_used_listed_and_revoked_on_the_command_line(gateway):
    made = token(gateway, "create", "ci", "--scope", "execute", "--tenant", "acme", "--expires", "1d", "--description", "nightly")
    assert made.returncode == 0, made.stderr
    secret = made.stdout.strip()
    assert secret.startswith("himalia_") and "acme/ci, scope execute" in made.stderr and secret not in made.stderr
    boss = token(gateway, "create", "boss", "--scope", "admin", "--tenant", "other").stdout.strip()
    listed = json.loads(token(gateway, "list", "--json").stdout)["tokens"]
    assert [one["caller"] for one in listed] == ["ci", "boss"]
    assert secret not in json.dumps(listed)
    assert "nightly" in token(gateway, "list").stdout
    assert "boss" in token(gateway, "list", by=boss).stdout and "nightly" not in token(gateway, "list", by=boss).stdout
    foreign = token(gateway, "create", "x", "--scope", "read", "--tenant", "acme", by=boss)
    assert foreign.returncode == 1 and "forbidden" in foreign.stderr

    # It outlives the gateway's process.
    session = client_with(gateway, secret).post("v1/sessions", json={}).json()["id"]
    gateway.kill()
    gateway.start()
    ran = client_with(gateway, secret).post(f"v1/sessions/{session}/executions", json={"code": "6 * 7"}).json()
    assert (ran["status"], ran["caller"]) == ("ok", "acme/ci")
    with connect(gateway.websocket_url(f"api/kernels/{session}/channels?token={secret}"), proxy=None) as socket:
        revoked = token(gateway, "revoke", listed[0]["id"])
        assert revoked.returncode == 0, revoked.stderr
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(timeout=60)
    assert client_with(gateway, secret).get("v1/sessions").status_code == 401
    again = token(gateway, "revoke", listed[0]["id"])
    assert again.returncode == 1 and "token_not_found" in again.stderr
    gateway.kill()
    gateway.start()
    assert client_with(gateway, secret).get("v1/sessions").status_code == 401
    assert client_with(gateway, CONFIGURED).get("v1/sessions").status_code == 200
    assert client_with(gateway, boss).get("v1/tokens").status_code == 200
    for text in (gateway.log.read_text(), (gateway.directory / "data" / "himalia.db").read_bytes().decode("latin-1")):
        assert secret not in text and boss not in text
