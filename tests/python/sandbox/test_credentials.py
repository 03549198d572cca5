"""A session uses keys that it does not have, by the internal name and by interception; and who may use which, from when and until when."""

import base64
import os
import re
import secrets
import subprocess

import pytest
from channels import Channels
from keys import AT, MOUNTED, PLACEHOLDER, PYTHON, World, asks, client, says, session  # noqa: F401 (fixtures)
from levels import ROOT
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
WAYS = ["internal", "intercepted"]
LIBRARIES = os.environ.get("HIMALIA_TEST_LIBRARIES", ROOT / "target" / "test-libraries")


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("credentials"), request.param, {"libraries": LIBRARIES})
    yield made
    made.close()


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("way", WAYS)
def test_python_uses_a_key_that_it_does_not_have(world, client, name, way):
    path = f"/{secrets.token_hex(4)}?q=1"
    text = asks(client, world.url("api", way) + path, name)
    assert path in text, text
    assert world.keeper.requests[-1][1] == path
    assert world.keeper.last()["authorization"] == f"Bearer {world.secret}"
    assert world.keeper.last()["host"] == f"api.test:{world.keeper.port}"
    # It was repeated in the body, and in a header.
    assert "Bearer " + "*" * len(world.secret) in text and world.secret not in text, text


@pytest.mark.parametrize("way", WAYS)
def test_the_password_of_a_file_and_its_base64_form(world, client, way):
    code = f"import os, requests; r = requests.get({world.url('user', way)!r} + '/', auth=('ada', os.environ['USER_KEY'])); print(r.text, r.headers)"
    for _ in range(2):
        text = says(client, code)
        expected = base64.b64encode(f"ada:{world.password}".encode()).decode()
        assert world.keeper.last()["authorization"] == f"Basic {expected}", text
        assert '"path": "/"' in text and expected[8:-4] not in text and world.password not in text, text
        world.change_password(secrets.token_hex(20))


SDK = """
import io, sys
sys.path.append({libraries!r})
import botocore.config, botocore.session
made = botocore.session.get_session().create_client("s3", region_name="eu-central-1", endpoint_url={url!r}, config=botocore.config.Config(retries={{"total_max_attempts": 1}}))
made.put_object(Bucket="bucket", Key="a folder/\u00fc+1", Body=b"some data")
print(made.get_object(Bucket="bucket", Key="a folder/\u00fc+1", ResponseContentType="text/plain; charset=utf-8")["Body"].read())
made.put_object(Bucket="bucket", Key="stream", Body=io.BytesIO(b"streamed " * 1000), ChecksumAlgorithm="SHA256")
got = made.get_object(Bucket="bucket", Key="stream")
print(len(got["Body"].read()), got["ResponseMetadata"])
"""


@pytest.mark.parametrize("way", WAYS)
def test_an_sdk_that_signs_is_signed_again(world, client, way):
    world.keeper.objects.clear()
    text = says(client, SDK.format(libraries=MOUNTED.format("libraries"), url=world.url("aws", way)))
    assert text.startswith("b'some data'"), text
    assert world.keeper.objects["/bucket/a%20folder/%C3%BC%2B1"] == b"some data"
    assert world.keeper.objects["/bucket/stream"] == b"streamed " * 1000
    assert "/eu-central-1/s3/aws4_request" in world.keeper.last()["authorization"]
    # The host repeats its key in a header.
    assert "*" * len(world.key) in text and world.key not in text, text


def test_no_other_host_gets_a_key(world, client):
    port = world.keeper.port
    text = asks(client, f"https://other.test:{port}/")
    assert PLACEHOLDER.format("api") in text, text
    assert world.keeper.last()["authorization"] == "Bearer " + PLACEHOLDER.format("api")
    # The certificate is that of the host: its TLS was not read.
    issuer = "import os, socket, ssl; s = socket.create_connection(('127.0.0.1', 3128)); s.sendall(b'CONNECT {0}:{1} HTTP/1.1\\r\\nHost: {0}\\r\\n\\r\\n'); s.recv(999); print(ssl.create_default_context().wrap_socket(s, server_hostname='{0}').getpeercert()['issuer'])"
    assert "Test authority" in says(client, issuer.format("other.test", port))
    assert "Himalia gateway" in says(client, issuer.format("api.test", port))
    count = len(world.keeper.requests)
    assert "credential_denied: 'other'" in asks(client, "http://other.credential.internal/").replace('"', "'")
    assert "credential_denied: the credential later does not exist" in asks(client, "http://later.credential.internal/")
    # Methods are checked in TLS that is read.
    for way in WAYS:
        put = says(client, f"import requests; print(requests.put({world.url('api', way)!r}).text)")
        assert "egress_denied: PUT api.test" in put
    assert len(world.keeper.requests) == count


def test_a_session_is_refused_what_it_cannot_have(world):
    post = lambda **body: world.gateway.http.post("v1/sessions", json=body)
    reply = post(template="unlisted")
    assert reply.status_code == 422 and reply.json()["code"] == "credential_not_allowed", reply.text
    assert f"api.test:{world.keeper.port} of the credential api is not on the session's list" in reply.text
    assert "strange is not among the credentials" in post(template="keys", credentials=["strange"]).text
    assert "the credential later does not exist" in post(template="keys", credentials=["later"]).text
    few = world.gateway.session("keys", credentials=["user"])
    assert few["credentials"] == ["user"]
    with Channels(world.gateway, few["id"]) as client:
        assert says(client, "import os; print('API_KEY' in os.environ, 'USER_KEY' in os.environ)") == "False True"
        assert "(has: user)" in says(client, "import requests; print(requests.get('http://api.credential.internal/').text)")
    world.gateway.end(few["id"])


def test_a_session_of_a_pool_has_keys_until_its_list_is_shorter(world):
    def claimed():
        made = world.gateway.session("ready")
        if made["started_by"] == "pool":
            return made["id"]
        world.gateway.end(made["id"])
        return None

    session = eventually(claimed, "a session comes from the pool", 60)
    urls = ("http://api.credential.internal/", f"https://api.test:{world.keeper.port}/")
    with Channels(world.gateway, session) as client:
        for url in urls:
            asks(client, url)
            assert world.keeper.last()["authorization"] == f"Bearer {world.secret}"
        assert world.gateway.http.patch(f"v1/sessions/{session}", json={"network": {"allow": []}}).status_code == 200
        count = len(world.keeper.requests)
        for url in urls:
            text = asks(client, url)
            assert f"egress_denied: GET api.test:{world.keeper.port}" in text or f"egress_denied: api.test:{world.keeper.port}" in text, text
        assert len(world.keeper.requests) == count
    world.gateway.end(session)


def test_uses_are_in_the_log_and_changes_in_the_audit_log(world, session, client):
    asks(client, "http://api.credential.internal/noted")

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
    definition = {"kind": "bearer", "hosts": [f"api.test:{world.keeper.port}"]}
    world.secret = secrets.token_hex(20)
    world.put("api", {**definition, "value": world.secret})
    for url in ("http://api.credential.internal/", f"https://api.test:{world.keeper.port}/"):
        text = asks(client, url)
        assert world.keeper.last()["authorization"] == f"Bearer {world.secret}" and world.secret not in text
    assert world.gateway.http.delete("v1/credentials/api").status_code == 204
    count = len(world.keeper.requests)
    text = asks(client, "http://api.credential.internal/")
    assert "credential_denied: the credential api does not exist, or was revoked" in text, text
    assert len(world.keeper.requests) == count
    reply = world.gateway.http.delete("v1/credentials/api")
    assert reply.status_code == 404 and reply.json()["code"] == "credential_not_found", reply.text
    world.put("api", {**definition, "value": world.secret})


def test_the_command_line_and_a_restart(world, session):
    program = os.environ["HIMALIA_BIN"]
    gateway = ["--url", world.gateway.url.split("?")[0], "--token-file", str(world.gateway.token_file)]
    world.secret = secrets.token_hex(20)
    host = f"api.test:{world.keeper.port}"
    done = subprocess.run([program, "credential", "set", "api", "--kind", "bearer", "--host", host, *gateway], input=world.secret + "\n", text=True, capture_output=True)
    assert done.returncode == 0 and host in done.stdout and world.secret not in done.stdout, done
    listed = subprocess.run([program, "credential", "ls", *gateway], text=True, capture_output=True, check=True).stdout
    assert re.search(r"^api +operator +bearer +" + host, listed, re.M) and re.search(r"^user .* configuration ", listed, re.M), listed
    world.gateway.kill()
    world.gateway.start()
    with Channels(world.gateway, session) as again:
        text = asks(again, f"https://api.test:{world.keeper.port}/")
    assert world.keeper.last()["authorization"] == f"Bearer {world.secret}", text
    refused = subprocess.run([program, "credential", "rm", "user", *gateway], text=True, capture_output=True)
    assert refused.returncode == 1 and "is in the configuration" in refused.stderr, refused
