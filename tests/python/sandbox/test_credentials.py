"""A session uses keys that it does not have: ordinary clients, by the internal name and by interception, and no trace of the keys in it."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import re
import secrets
import ssl
import subprocess
import threading
from pathlib import Path

import pytest
from channels import Channels
from hosts import Names
from processes import having_argument
from test_network import Privileged
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

TEMPLATES = """
[templates.keys]
kernelspec = "python3"
provisioner = "local"
isolation = "namespaces"
memory = "512MiB"
pids = 100
network = "allow"
allow = [{{ host = "api.test", ports = [{port}], methods = ["GET", "POST"] }}, "other.test:{port}", "user.test:{port}", "aws.test:{port}"]
credentials = ["api", "user", {{ name = "aws", env = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] }}, "later"]
intercept = true

[templates.ready]
kernelspec = "python3"
provisioner = "local"
isolation = "namespaces"
memory = "512MiB"
network = "allow"
allow = ["api.test:{port}"]
credentials = ["api"]
intercept = ["api.test:{port}"]
pool.size = 1

[templates.unlisted]
kernelspec = "python3"
provisioner = "local"
isolation = "namespaces"
network = "allow"
allow = ["other.test"]
credentials = ["api"]

[credentials.user]
kind = "basic"
user = "ada"
hosts = ["user.test:{port}"]
value_file = "{file}"
"""


class Echo:
    """A server with TLS that repeats the head and the body of each request, in parts, and keeps them."""

    def __init__(self, certificate):
        self.requests = []
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                host.requests.append((self.command, self.path, dict(self.headers.items()), body))
                text = json.dumps({"path": self.path, "headers": dict(self.headers.items())}).encode() + body
                self.send_response(200)
                self.send_header("x-echo", self.headers.get("authorization") or "none")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                for at in range(0, len(text), 5):
                    self.wfile.write(text[at : at + 5])
                    self.wfile.flush()

            do_POST = do_PUT = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def last(self):
        """Headers of the latest request, in lower case."""
        return {name.lower(): value for name, value in self.requests[-1][2].items()}

    def close(self):
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()


def authority(directory, *names):
    """A certificate authority, and a certificate of it for these names with its key."""
    ca, ca_key, cert, key, request = (str(directory / name) for name in ("ca.pem", "ca.key", "host.pem", "host.key", "host.csr"))
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run = lambda *command: subprocess.run(["openssl", *command], check=True, capture_output=True)
    run("req", "-x509", *new, "-days", "2", "-subj", "/CN=Test authority", "-keyout", ca_key, "-out", ca)
    run("req", *new, "-subj", f"/CN={names[0]}", "-keyout", key, "-out", request)
    extensions = directory / "extensions"
    extensions.write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in names))
    run("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", cert)
    return ca, (cert, key)


class World:
    """A server, and a gateway that has keys for it."""

    def __init__(self, directory):
        self.directory = directory
        self.secret, self.password, self.key = (secrets.token_hex(20) for _ in range(3))
        hosts = ("api.test", "other.test", "user.test", "aws.test")
        ca, certificate = authority(directory, *hosts)
        self.echo = Echo(certificate)
        names = Names(directory)
        for name in hosts:
            names[name] = ["127.0.0.2"]
        self.file = directory / "password"
        self.file.write_text(self.password + "\n")
        port = self.echo.port
        templates = TEMPLATES.format(port=port, file=self.file)
        having = Privileged.having(names, templates)
        self.gateway = having(directory / "gateway", "namespaces", f"--private-address=127.0.0.2:{port}", env={"SSL_CERT_FILE": ca})
        self.put("api", {"kind": "bearer", "hosts": [f"api.test:{port}"], "value": self.secret})
        aws = {"kind": "aws_sigv4", "hosts": [f"aws.test:{port}"], "access_key": "AKIDTEST", "value": self.key}
        self.put("aws", aws)

    def put(self, name, body):
        """PUT of a credential."""
        reply = self.gateway.http.put(f"v1/credentials/{name}", json=body)
        assert reply.status_code == 200, reply.text
        assert body["value"] not in reply.text
        return reply.json()

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.echo.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("credentials"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world):
    """A session that may use all of the keys."""
    made = world.gateway.session("keys")["id"]
    yield made
    world.gateway.end(made)


@pytest.fixture
def client(world, session):
    """A client of it."""
    with Channels(world.gateway, session) as client:
        yield client


def says(client, code):
    """What code prints."""
    done = client.run(code, 60)
    return done.text().strip() or done.text("stderr") or str(done.content)


SHELL = "import subprocess; print(subprocess.run({!r}, shell=True, capture_output=True, text=True).stdout)"

# Expressions with a URL in the place of {}, and the placeholder where a client puts its key.
CLIENTS = {
    "urllib": "import os, urllib.request as u; print(u.urlopen(u.Request({!r}, headers={{'Authorization': 'Bearer ' + os.environ['API_KEY']}})).read().decode())",
    "requests": "import os, requests; r = requests.get({!r}, headers={{'Authorization': 'Bearer ' + os.environ['API_KEY']}}); print(r.text, r.headers)",
    "http.client through urllib3": "import os, urllib3; h = urllib3.ProxyManager(os.environ['HTTPS_PROXY'], ca_certs=os.environ['SSL_CERT_FILE']); print(h.request('GET', {!r}, headers={{'Authorization': 'Bearer ' + os.environ['API_KEY']}}).data.decode())",
    "curl": 'import subprocess; print(subprocess.run(["sh", "-c", "curl -sSi -H \\"Authorization: Bearer $API_KEY\\" " + {!r}], capture_output=True, text=True))',
}


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("way", ["internal", "intercepted"])
def test_ordinary_clients_use_a_key_that_they_do_not_have(world, client, name, way):
    port = world.echo.port
    url = {"internal": "http://api.credential.internal", "intercepted": f"https://api.test:{port}"}[way] + f"/{secrets.token_hex(4)}?q=1"
    text = says(client, CLIENTS[name].format(url))
    path = url.rpartition("/")[2]
    assert f"/{path}" in text, text
    assert world.echo.requests[-1][1] == f"/{path}"
    assert world.echo.last()["authorization"] == f"Bearer {world.secret}"
    assert world.echo.last()["host"] == f"api.test:{port}"
    # It was repeated in a header and in the body.
    assert "Bearer " + "*" * len(world.secret) in text and world.secret not in text, text


def test_the_password_of_a_file_and_its_base64_form(world, client):
    port = world.echo.port
    for url in ("http://user.credential.internal/", f"https://user.test:{port}/"):
        text = says(client, SHELL.format(f'curl -sSi -u "ada:$USER_KEY" {url}'))
        expected = base64.b64encode(f"ada:{world.password}".encode()).decode()
        assert world.echo.last()["authorization"] == f"Basic {expected}", text
        assert '"path": "/"' in text and expected[8:-4] not in text and world.password not in text, text
    world.password = secrets.token_hex(20)
    world.file.write_text(world.password)
    says(client, SHELL.format("curl -sS http://user.credential.internal/"))
    assert world.echo.last()["authorization"] == "Basic " + base64.b64encode(f"ada:{world.password}".encode()).decode()


def signature(key, method, path, headers, body):
    """AWS Signature Version 4 of a request, from its own statement of what is signed."""
    scope, names = re.search(r"Credential=AKIDTEST/(\S+), SignedHeaders=(\S+),", headers["authorization"]).groups()
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in names.split(";"))
    canonical = "\n".join([method, path, "", lines, names, hashlib.sha256(body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    made = ("AWS4" + key).encode()
    for part in (*scope.split("/"), text):
        made = hmac.new(made, part.encode(), hashlib.sha256).digest()
    return made.hex()


@pytest.mark.parametrize("way", ["internal", "intercepted"])
def test_a_client_that_signs_is_signed_again(world, client, way):
    url = {"internal": "http://aws.credential.internal", "intercepted": f"https://aws.test:{world.echo.port}"}[way]
    curl = 'curl -sS --aws-sigv4 aws:amz:eu-central-1:sqs --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"'
    text = says(client, SHELL.format(f"{curl} --data 'Action=x' {url}/queue"))
    method, path, _, body = world.echo.requests[-1]
    headers = world.echo.last()
    assert (method, path, body) == ("POST", "/queue", b"Action=x"), text
    assert "/eu-central-1/sqs/aws4_request" in headers["authorization"]
    assert headers["authorization"].endswith("Signature=" + signature(world.key, method, path, headers, body))


def test_no_other_host_gets_a_key(world, client):
    port = world.echo.port
    text = says(client, CLIENTS["requests"].format(f"https://other.test:{port}/"))
    assert "himalia-credential-api-placeholder" in text, text
    assert world.echo.last()["authorization"] == "Bearer himalia-credential-api-placeholder"
    # The certificate is that of the host: its TLS was not read.
    issuer = "import os, socket, ssl; s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'CONNECT {0}:{1} HTTP/1.1\\r\\nHost: {0}\\r\\n\\r\\n'); s.recv(999); print(ssl.create_default_context().wrap_socket(s, server_hostname='{0}').getpeercert()['issuer'])"
    assert "Test authority" in says(client, issuer.format("other.test", port))
    assert "Himalia gateway" in says(client, issuer.format("api.test", port))
    count = len(world.echo.requests)
    assert "credential_denied: 'other'" in says(client, CLIENTS["requests"].format("http://other.credential.internal/")).replace('"', "'")
    assert "credential_denied: the credential later does not exist" in says(client, CLIENTS["requests"].format("http://later.credential.internal/"))
    # Methods are checked in TLS that is read.
    for url in ("http://api.credential.internal/", f"https://api.test:{port}/"):
        assert "egress_denied: PUT api.test" in says(client, SHELL.format(f"curl -sS -X PUT {url}"))
    assert len(world.echo.requests) == count


def test_a_session_is_refused_what_it_cannot_have(world):
    post = lambda **body: world.gateway.http.post("v1/sessions", json=body)
    reply = post(template="unlisted")
    assert reply.status_code == 422 and reply.json()["code"] == "credential_not_allowed", reply.text
    assert f"api.test:{world.echo.port} of the credential api is not on the session's list" in reply.text
    assert "strange is not among the credentials" in post(template="keys", credentials=["strange"]).text
    assert "the credential later does not exist" in post(template="keys", credentials=["later"]).text
    few = world.gateway.session("keys", credentials=["user"])
    assert few["credentials"] == ["user"]
    with Channels(world.gateway, few["id"]) as client:
        assert says(client, "import os; print('API_KEY' in os.environ, 'USER_KEY' in os.environ)") == "False True"
        assert "(has: user)" in says(client, SHELL.format("curl -sS http://api.credential.internal/"))
    world.gateway.end(few["id"])


def test_a_session_of_a_pool_has_keys_until_its_list_is_shorter(world):
    def claimed():
        made = world.gateway.session("ready")
        if made["started_by"] == "pool":
            return made["id"]
        world.gateway.end(made["id"])
        return None

    session = eventually(claimed, "a session comes from the pool", 60)
    urls = ("http://api.credential.internal/", f"https://api.test:{world.echo.port}/")
    with Channels(world.gateway, session) as client:
        for url in urls:
            says(client, CLIENTS["requests"].format(url))
            assert world.echo.last()["authorization"] == f"Bearer {world.secret}"
        assert world.gateway.http.patch(f"v1/sessions/{session}", json={"network": {"allow": []}}).status_code == 200
        count = len(world.echo.requests)
        for url in urls:
            text = says(client, CLIENTS["requests"].format(url))
            assert f"egress_denied: GET api.test:{world.echo.port}" in text or f"egress_denied: api.test:{world.echo.port}" in text, text
        assert len(world.echo.requests) == count
    world.gateway.end(session)


def memory_has(pid, needles):
    """Which of these bytes are in the memory of a process."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            area, rights, *_, name = [*line.split()[:5], line.split()[-1]]
            if not rights.startswith("r") or name.startswith("[v"):
                continue
            start, end = (int(part, 16) for part in area.split("-"))
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except OSError:
                continue
            found |= {needle for needle in needles if needle in content}
    return found


def test_no_key_is_in_the_sandbox_or_in_what_the_gateway_writes(world, session, client):
    mark = secrets.token_hex(8)
    says(client, f"import subprocess; p = subprocess.Popen(['sleep', '1000.{mark}'.translate(str.maketrans('abcdef', '123456'))])")
    sleeper = "1000." + mark.translate(str.maketrans("abcdef", "123456"))
    found = eventually(lambda: [pid for pid in having_argument(sleeper)], "the process of the session is found")
    space = os.readlink(f"/proc/{found[0]}/ns/pid")
    inside = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _space(entry) == space]
    assert len(inside) >= 3, inside
    keys = [key.encode() for key in (world.secret, world.password, world.key)]
    placeholder = b"himalia-credential-api-placeholder"
    seen = set().union(*(memory_has(pid, [*keys, placeholder]) for pid in inside))
    assert seen == {placeholder}, "the search finds what is there, and no key"
    files = says(client, "import os\nfor top in ('/session', '/tmp', '/proc/self'):\n    for at, _, names in os.walk(top):\n        if at.count('/') < 5: print(*(os.path.join(at, name) for name in names if name in ('environ', 'cmdline', 'bundle.pem')))")
    assert "/session/.certificates/bundle.pem" in files and "/proc/self/environ" in files
    says(client, "p.kill(); p.wait()")
    listed = world.gateway.http.get("v1/credentials").text
    assert "AKIDTEST" in listed
    written = {}
    for file in [world.gateway.log, *Path(world.gateway.directory, "data").rglob("*")]:
        if file.is_file():
            content = file.read_bytes()
            written[str(file)] = {key for key in [*keys, placeholder] if key in content}
    leaked = {name: found for name, found in written.items() if found & set(keys)}
    assert not leaked and not any(key.decode() in listed for key in keys), leaked
    assert any(placeholder in found for found in written.values()), "what was run is in the log of the session"


def _space(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def test_uses_are_in_the_log_and_changes_in_the_audit_log(world, session, client):
    says(client, CLIENTS["curl"].format("http://api.credential.internal/noted"))

    def noted():
        with world.gateway.http.stream("GET", f"v1/sessions/{session}/events", params={"after": 0}, timeout=30) as events:
            for line in events.iter_lines():
                if '"credential":"api"' in line.replace(" ", "") and '"api.test"' in line:
                    return True
        return False

    eventually(noted, "the use of a credential is a record")
    log = world.gateway.log.read_text()
    assert re.search(r"set_credential.*credential api", log) and world.secret not in log


def test_a_new_value_counts_at_once_and_a_deleted_one_is_refused(world, client):
    definition = {"kind": "bearer", "hosts": [f"api.test:{world.echo.port}"]}
    world.secret = secrets.token_hex(20)
    world.put("api", {**definition, "value": world.secret})
    for url in ("http://api.credential.internal/", f"https://api.test:{world.echo.port}/"):
        text = says(client, CLIENTS["requests"].format(url))
        assert world.echo.last()["authorization"] == f"Bearer {world.secret}" and world.secret not in text
    assert world.gateway.http.delete("v1/credentials/api").status_code == 204
    count = len(world.echo.requests)
    text = says(client, CLIENTS["requests"].format("http://api.credential.internal/"))
    assert "credential_denied: the credential api does not exist, or was revoked" in text, text
    assert len(world.echo.requests) == count
    reply = world.gateway.http.delete("v1/credentials/api")
    assert reply.status_code == 404 and reply.json()["code"] == "credential_not_found", reply.text
    world.put("api", {**definition, "value": world.secret})


def test_the_command_line_and_a_restart(world, session):
    program = os.environ["HIMALIA_BIN"]
    gateway = ["--url", world.gateway.url.split("?")[0], "--token-file", str(world.gateway.token_file)]
    world.secret = secrets.token_hex(20)
    host = f"api.test:{world.echo.port}"
    done = subprocess.run([program, "credential", "set", "api", "--kind", "bearer", "--host", host, *gateway], input=world.secret + "\n", text=True, capture_output=True)
    assert done.returncode == 0 and host in done.stdout and world.secret not in done.stdout, done
    listed = subprocess.run([program, "credential", "ls", *gateway], text=True, capture_output=True, check=True).stdout
    assert re.search(r"^api +operator +bearer +" + host, listed, re.M) and re.search(r"^user .* configuration ", listed, re.M), listed
    world.gateway.kill()
    world.gateway.start()
    with Channels(world.gateway, session) as again:
        text = says(again, CLIENTS["requests"].format(f"https://api.test:{world.echo.port}/"))
    assert world.echo.last()["authorization"] == f"Bearer {world.secret}", text
    refused = subprocess.run([program, "credential", "rm", "user", *gateway], text=True, capture_output=True)
    assert refused.returncode == 1 and "is in the configuration" in refused.stderr, refused
