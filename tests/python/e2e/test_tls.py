"""`--tls-cert`: https and wss on the gateway itself, with clients of each kind, and a certificate that changes while it runs."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess

import httpx
import pytest
from channels import SLOW, SLOW_LINES, Channels, is_idle_of, lines
from servers import Himalia
from tls import trusting
from waiting import eventually


def certificate(directory, name):
    """A self-signed certificate for 127.0.0.1 and its key."""
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return cert, key


class Secure(Himalia):
    """A gateway with TLS."""

    def __init__(self, directory):
        directory.mkdir(parents=True)
        self.cert, self.key = directory / "tls.pem", directory / "tls.key"
        self.use(*certificate(directory, "first"))
        super().__init__(directory, "--tls-cert", str(self.cert), "--tls-key", str(self.key))

    def use(self, cert, key):
        """From the next look at the files on."""
        shutil.copyfile(key, self.key)
        shutil.copyfile(cert, self.cert)
        self.trust = trusting(cert)

    def _open(self):
        headers = {"Authorization": f"token {self.token}"}
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False, verify=self.trust)

    def subject(self):
        """The certificate that a new connection gets."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        address = self.listen.rsplit(":", 1)
        with socket.create_connection((address[0], int(address[1])), timeout=60) as tcp:
            with context.wrap_socket(tcp) as tls:
                return tls.getpeercert(binary_form=True), tls.version()


@pytest.fixture
def gateway(tmp_path, kernel_python):
    own = Secure(tmp_path / "gateway")
    yield own
    own.stop()


def der(path):
    return ssl.PEM_cert_to_DER_cert(path.read_text())


def test_all_kinds_of_clients(gateway, tmp_path):
    assert gateway.url.startswith("https://127.0.0.1:")
    session = gateway.start_session()
    ran = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": "print('x' * 3_000_000)\n6 * 7"}).json()
    assert ran["status"] == "ok", ran
    with gateway.http.stream("GET", f"v1/executions/{ran['id']}/events?after=0") as events:
        assert any('"42"' in line for line in events.iter_lines())
    for framing in ("v1", "legacy"):
        with Channels(gateway, session, framing, ssl=gateway.trust) as client:
            done = client.run("print('y' * 3_000_000); 6 * 7")
            assert len(done.text()) == 3_000_001 and done.of("execute_result")[0]["content"]["data"]["text/plain"] == "42"
    at = ["--url", gateway.url, "--token-file", str(gateway.token_file)]
    command = [os.environ["HIMALIA_BIN"], "exec", session, *at, "print(6 * 7)"]
    done = subprocess.run([*command, "--ca", str(gateway.cert)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "42\n"), done
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "--ca FILE" in done.stderr, done
    # A browser's cookie is for https alone.
    signed = gateway.http.post("viewer/sign-in", json={"token": gateway.token})
    assert "; Secure" in signed.headers["set-cookie"] and signed.headers["set-cookie"].startswith("__Host-himalia-")
    # A client that does not know about TLS is let go.
    with pytest.raises(httpx.HTTPError):
        httpx.get(gateway.url.replace("https", "http"), timeout=60, trust_env=False)
    assert gateway.subject()[1] == "TLSv1.3"
    log = gateway.log.read_text()
    assert gateway.token not in log


@pytest.mark.parametrize("framing", ["v1", "legacy"])
@pytest.mark.parametrize("ending", ["closed", "dropped"])
def test_a_client_that_returns_with_its_session_id_misses_nothing(gateway, framing, ending):
    kernel_id = gateway.start_kernel()
    client = Channels(gateway, kernel_id, framing, ssl=gateway.trust)
    msg_id = client.submit(SLOW)
    first = client.until(lambda m: m["msg_type"] == "stream")
    first += client.cut() if ending == "dropped" else client.close()
    with Channels(gateway, kernel_id, framing, session=client.session, ssl=gateway.trust) as again:
        rest, idle, reply = [], False, None
        while not idle or reply is None:
            rest.append(again.receive())
            idle = idle or is_idle_of(rest[-1], msg_id)
            if rest[-1]["channel"] == "shell":
                reply = rest[-1]
    assert reply["content"]["status"] == "ok"
    seen, after = lines(first, msg_id) + lines(rest, msg_id), lines(rest, msg_id)
    if ending == "closed":
        assert seen == SLOW_LINES
    else:
        # What was on its way may come again, in order; nothing is missing.
        assert set(seen) == set(SLOW_LINES) and after == SLOW_LINES[-len(after) :]


def test_a_certificate_changes_while_the_gateway_runs(gateway):
    first = der(gateway.cert)
    assert gateway.subject()[0] == first
    session = gateway.start_session()
    with Channels(gateway, session, ssl=gateway.trust) as client:
        # What is broken is said, and the one before stays.
        gateway.cert.write_text("no certificate")
        gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: "the certificate stays as it was" in gateway.log.read_text(), lambda: gateway.log.read_text()[-2000:])
        assert gateway.subject()[0] == first
        # By itself, without a signal.
        second, key = certificate(gateway.directory, "second")
        gateway.use(second, key)
        eventually(lambda: gateway.subject()[0] == der(second), lambda: gateway.log.read_text()[-2000:])
        assert client.run("6 * 7").of("execute_result"), "what is open continues"
    gateway._open()
    assert gateway.http.get("api/kernels").status_code == 200
    third, key = certificate(gateway.directory, "third")
    gateway.use(third, key)
    gateway.process.send_signal(signal.SIGHUP)
    eventually(lambda: gateway.subject()[0] == der(third), lambda: gateway.log.read_text()[-2000:])
    gateway._open()
    assert "PRIVATE" not in json.dumps(gateway.log.read_text())
