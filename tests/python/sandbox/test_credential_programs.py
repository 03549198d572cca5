"""Programs use keys that they do not have: curl, git, Node, Java.

They are those of this machine. Images have none of them, so sandboxes in containers get them by a mount, if the image is of the same Debian.
"""

import base64
import hashlib
import os
import platform
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest
from channels import Channels
from keeper import signature
from keys import AT, MOUNTED, SHELL, World, says, session  # noqa: F401 (fixtures)
from levels import ENGINE, ROOT

pytestmark = pytest.mark.timeout(300)
WAYS = ["internal", "intercepted"]

# The programs of this machine, in containers.
HOST = Path(MOUNTED.format("host"))
# The machine's, or the one that `make` has fetched.
NODE = Path(shutil.which("node") or "/usr/bin/node").resolve()
MODULES = Path(os.environ.get("HIMALIA_TEST_NODE_MODULES", ROOT / "web" / "node_modules"))

# Node 24 and 22.21 look at the variables by themselves, earlier ones with the agent of `undici`, which is their own `fetch`.
FETCH = """
const itself = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');
const undici = itself ? null : require('undici');
if (undici) undici.setGlobalDispatcher(new undici.EnvHttpProxyAgent());
const ask = undici ? undici.fetch : fetch;
ask(process.argv[1], { headers: { authorization: 'Bearer ' + process.env.API_KEY } })
  .then(async reply => console.log(process.version, await reply.text(), [...reply.headers]))
  .catch(error => console.log('FAILED', error, error.cause));
"""

ASK = """
import java.net.*;
import java.net.http.*;
public class Ask {
    public static void main(String[] arguments) throws Exception {
        var key = "Bearer " + System.getenv("API_KEY");
        var request = HttpRequest.newBuilder(URI.create(arguments[0])).header("authorization", key).build();
        var reply = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(reply.statusCode() + reply.body() + reply.headers().map());
        var old = (HttpURLConnection) URI.create(arguments[0] + "old").toURL().openConnection();
        old.setRequestProperty("authorization", key);
        System.out.println(old.getResponseCode() + new String(old.getInputStream().readAllBytes()));
    }
}
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """One of git, as files that any HTTP server can serve; and the text of its only file."""
    place = tmp_path_factory.mktemp("repository")
    text = secrets.token_hex(8)
    git = lambda *command: subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main", *command],
        cwd=place, check=True, capture_output=True, env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"},
    )
    git("init", "work")
    (place / "work" / "note").write_text(text)
    git("-C", "work", "add", "note")
    git("-C", "work", "commit", "-m", "One")
    git("clone", "--bare", "work", "repository.git")
    git("-C", "repository.git", "update-server-info")
    return place / "repository.git", text


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, repository, kernel_python):
    """One for the tests of this file."""
    mounts = {"modules": MODULES} | ({} if NODE.is_relative_to("/usr") else {"node": NODE.parents[1]}) | ({"host": "/usr"} if ENGINE else {})
    made = World(tmp_path_factory.mktemp("programs"), request.param, mounts, repository[0])
    yield made
    made.close()


@pytest.fixture
def client(world, session):
    """A client of it."""
    with Channels(world.gateway, session) as client:
        if ENGINE:
            core = subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip()
            found = {"PATH": f"{HOST}/local/bin:{HOST}/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{HOST}/lib/{platform.machine()}-linux-gnu", "GIT_EXEC_PATH": at(core)}
            client.run(f"import os; os.environ.update({found!r})", 60)
        yield client


def at(path):
    """Where a path of this machine is in the sandbox."""
    path = Path(path)
    if path.is_relative_to("/usr"):
        return str(HOST / path.relative_to("/usr")) if ENGINE else str(path)
    return str(Path(MOUNTED.format("node")) / path.relative_to(NODE.parents[1]))


def runs(client, *command, env=None):
    """What a program of the sandbox prints, on both its outputs."""
    code = f"import os, subprocess; r = subprocess.run({list(command)!r}, env={{**os.environ, **{env or {}!r}}}, capture_output=True, text=True); print(r.stdout, r.stderr)"
    return says(client, code)


@pytest.mark.parametrize("way", WAYS)
def test_curl(world, client, way):
    url = world.url("api", way) + "/" + secrets.token_hex(4)
    text = says(client, SHELL.format(f'curl -sSi -H "Authorization: Bearer $API_KEY" {url}'))
    assert world.keeper.last()["authorization"] == f"Bearer {world.secret}", text
    assert "Bearer " + "*" * len(world.secret) in text and world.secret not in text, text
    text = says(client, SHELL.format(f'curl -sSi -u "ada:$USER_KEY" {world.url("user", way)}/'))
    expected = base64.b64encode(f"ada:{world.password}".encode()).decode()
    assert world.keeper.last()["authorization"] == f"Basic {expected}", text
    assert '"path": "/"' in text and expected[8:-4] not in text and world.password not in text, text


@pytest.mark.parametrize("way", WAYS)
def test_curl_that_signs_is_signed_again(world, client, way):
    curl = 'curl -sS --aws-sigv4 aws:amz:eu-central-1:sqs --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"'
    text = says(client, SHELL.format(f"{curl} --data 'Action=x' {world.url('aws', way)}/queue"))
    method, path, _, body = world.keeper.requests[-1]
    headers = world.keeper.last()
    assert (method, path, body) == ("POST", "/queue", b"Action=x"), text
    assert "/eu-central-1/sqs/aws4_request" in headers["authorization"]
    digest = hashlib.sha256(body).hexdigest()
    assert headers["authorization"].endswith("Signature=" + signature(world.key, method, path, headers, digest))


@pytest.mark.parametrize("way", WAYS)
def test_git_clones_with_a_password(world, client, repository, way):
    base = world.url("user", way)
    url = base.replace("://", "://ada:$USER_KEY@") + "/repository.git"
    text = says(client, SHELL.format(f"cd /tmp && rm -rf cloned && git clone {url} cloned 2>&1; cat cloned/note; git -C cloned config remote.origin.url"))
    assert repository[1] in text and world.password not in text, text
    # Without it the host refuses, and so it was needed.
    text = says(client, SHELL.format(f"cd /tmp && GIT_TERMINAL_PROMPT=0 git clone {world.url('user', 'intercepted')}/repository.git other 2>&1"))
    assert "could not read Username" in text, text


@pytest.mark.parametrize("way", WAYS)
def test_node(world, client, way):
    url = world.url("api", way) + "/" + secrets.token_hex(4)
    text = runs(client, at(NODE), "-e", FETCH, url, env={"NODE_PATH": MOUNTED.format("modules")})
    assert world.keeper.requests[-1][1] in url and world.keeper.last()["authorization"] == f"Bearer {world.secret}", text
    assert "Bearer " + "*" * len(world.secret) in text and world.secret not in text, text


if not ENGINE:
    # In containers the Java of the machine lacks its configuration, which Debian has in /etc.
    @pytest.mark.parametrize("way", WAYS)
    def test_java(world, client, way):
        java = Path(shutil.which("javac") or "/usr/bin/javac").resolve().with_name("java")
        says(client, f"open('/tmp/Ask.java', 'w').write({ASK!r})")
        path = "/" + secrets.token_hex(4)
        text = runs(client, at(java), "-Xmx128m", "/tmp/Ask.java", world.url("api", way) + path)
        assert [request[1] for request in world.keeper.requests[-2:]] == [path, path + "old"], text
        assert world.keeper.last()["authorization"] == f"Bearer {world.secret}", text
        assert text.count("Bearer " + "*" * len(world.secret)) >= 2 and world.secret not in text, text
