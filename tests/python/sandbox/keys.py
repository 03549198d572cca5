"""A gateway whose sessions use keys without having them. The fixtures are imported by the files that use them, which have a `world`."""

import json
import secrets

import pytest
from channels import Channels
from hosts import Names
from keeper import Keeper, authority
from levels import LEVELS, place
from test_network import Privileged

# An ordinary user's gateway adds credentials in the same process; the way of its connections is in test_network.py.
AT = [level for level in LEVELS if "ordinary" not in level]
PLACEHOLDER = "himalia-credential-{}-placeholder"
# Where the directories of World.mounts are.
MOUNTED = "/mnt/{}"

TEMPLATES = """
[templates.keys]
kernelspec = "python3"
{place}memory = "512MiB"
pids = 200
network = "allow"
allow = [{{ host = "api.test", ports = [{port}], methods = ["GET", "POST"] }}, "other.test:{port}", "user.test:{port}", "aws.test:{port}"]
credentials = ["api", "user", {{ name = "aws", env = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] }}, "later"]
intercept = true
mounts = {mounts}

[templates.ready]
kernelspec = "python3"
{place}memory = "512MiB"
network = "allow"
allow = ["api.test:{port}"]
credentials = ["api"]
intercept = ["api.test:{port}"]
pool.size = 1

[templates.unlisted]
kernelspec = "python3"
{place}network = "allow"
allow = ["other.test"]
credentials = ["api"]

[credentials.user]
kind = "basic"
user = "ada"
hosts = ["user.test:{port}"]
value_file = "{file}"
"""


class World:
    """A server, and a gateway at a level that has keys for it. `mounts` are directories that sessions of `keys` see, by name."""

    def __init__(self, directory, level, mounts=None, repository=None):
        self.directory = directory
        self.level = level
        self.secret, self.password, self.key = (secrets.token_hex(20) for _ in range(3))
        hosts = ("api.test", "other.test", "user.test", "aws.test")
        ca, certificate = authority(directory, *hosts)
        self.keeper = Keeper(certificate, repository)
        self.keeper.key = self.key
        names = Names(directory)
        for name in hosts:
            names[name] = ["127.0.0.2"]
        self.file = directory / "password"
        self.change_password(self.password)
        port = self.keeper.port
        mounts = mounts or {}
        templates = TEMPLATES.format(port=port, file=self.file, place=place(level), mounts=json.dumps(list(mounts)))
        for name, mounted in mounts.items():
            templates += f'[mounts.{name}]\ndirectory = "{mounted}"\npath = "{MOUNTED.format(name)}"\n'
        having = Privileged.having(names, templates)
        # Each line of the log that the program can write.
        options = (f"--private-address=127.0.0.2:{port}", "--log=trace")
        self.gateway = having(directory / "gateway", level, *options, env={"SSL_CERT_FILE": ca})
        self.put("api", {"kind": "bearer", "hosts": [f"api.test:{port}"], "value": self.secret})
        aws = {"kind": "aws_sigv4", "hosts": [f"aws.test:{port}"], "access_key": "AKIDTEST", "value": self.key}
        self.put("aws", aws)

    def change_password(self, password):
        """That of `user`."""
        self.password = self.keeper.password = password
        self.file.write_text(password + "\n")

    def put(self, name, body):
        """PUT of a credential."""
        reply = self.gateway.http.put(f"v1/credentials/{name}", json=body)
        assert reply.status_code == 200, reply.text
        assert body["value"] not in reply.text
        return reply.json()

    def url(self, name, way):
        """The base URL of a credential's host, by one of the two ways."""
        return f"http://{name}.credential.internal" if way == "internal" else f"https://{name}.test:{self.keeper.port}"

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.keeper.close()


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
    done = client.run(code, 120)
    return done.text().strip() or done.text("stderr") or str(done.content)


SHELL = "import subprocess; print(subprocess.run({!r}, shell=True, capture_output=True, text=True).stdout)"

# What a session runs when URL and KEY are set: each prints the response. KEY is the placeholder, where a client has its key.
PYTHON = {
    "urllib": "import urllib.request as u; print(u.urlopen(u.Request(URL, headers={'Authorization': 'Bearer ' + KEY})).read().decode())",
    "requests": "import requests; r = requests.get(URL, headers={'Authorization': 'Bearer ' + KEY}); print(r.text, r.headers)",
    "urllib3": "import urllib3; h = urllib3.ProxyManager(os.environ['HTTPS_PROXY'], ca_certs=os.environ['SSL_CERT_FILE']); print(h.request('GET', URL, headers={'Authorization': 'Bearer ' + KEY}).data.decode())",
    "httpx": "import httpx; r = httpx.get(URL, headers={'Authorization': 'Bearer ' + KEY}); print(r.text, r.headers)",
    "httpx, asynchronous": "import httpx\nasync with httpx.AsyncClient(headers={'Authorization': 'Bearer ' + KEY}) as c: r = await c.get(URL); print(r.text, r.headers)",
}


def asks(client, url, name="requests"):
    """What a Python client prints that asks for a URL."""
    return says(client, f"import os; URL, KEY = {url!r}, os.environ['API_KEY']\n{PYTHON[name]}")
