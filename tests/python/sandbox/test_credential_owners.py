"""Whose credentials a session uses: those of its tenant before those of the operator, as they are now, at whichever replica they were set."""

import secrets

import pytest
from channels import Channels
from hosts import Names
from keeper import Keeper, authority
from keys import asks, says
from postgres import Postgres
from replicas import Replica
from servers import client_with

pytestmark = pytest.mark.timeout(300)
TOKENS = {"acme": "token-of-ada-0123456789", "other": "token-of-eve-0123456789"}

CONFIG = """
retention = 0
[templates.keys]
kernelspec = "python3"
isolation = "namespaces"
memory = "512MiB"
network = "allow"
allow = ["api.test:{port}"]
credentials = ["api", {{ name = "only", env = "ONLY_KEY" }}]
intercept = true
[tenants.acme]
scopes = {{ ada = "admin" }}
tokens = {{ ada = "{acme}" }}
[tenants.other]
scopes = {{ eve = "admin" }}
tokens = {{ eve = "{other}" }}
"""


class Named(Replica):
    """A replica that knows names of its own."""

    names = None
    isolation = ()

    def command(self):
        """In a mount namespace with these names."""
        return self.names.around(super().command())


class Owners:
    """A host, and two replicas on one database. Sessions are on the second one, and credentials are set at the first one."""

    def __init__(self, directory):
        ca, certificate = authority(directory, "api.test")
        self.keeper = Keeper(certificate)
        port = self.keeper.port
        names = Names(directory)
        names["api.test"] = ["127.0.0.2"]
        config = directory / "himalia.toml"
        config.write_text(CONFIG.format(port=port, **TOKENS))
        key = directory / "credentials.key"
        key.write_text(secrets.token_hex(32) + "\n")
        key.chmod(0o600)
        self.replicas = []
        self.postgres = Postgres()
        url = self.postgres.database()
        token = secrets.token_hex(16)
        kind = type("Named", (Named,), {"names": names})
        options = ("--config", str(config), "--credentials-key-file", str(key), f"--private-address=127.0.0.2:{port}", "--log=trace")
        try:
            for name in ("a", "b"):
                self.replicas.append(kind(directory / name, url, name, *options, env={"SSL_CERT_FILE": ca}, token=token))
        except BaseException:
            self.close()
            raise
        self.setting = {"operator": self.replicas[0].http} | {tenant: client_with(self.replicas[0], one) for tenant, one in TOKENS.items()}
        self.serving = {"operator": self.replicas[1].http} | {tenant: client_with(self.replicas[1], one) for tenant, one in TOKENS.items()}

    def start(self, owner, **body):
        """The answer to a start of a session on the second replica."""
        return self.serving[owner].post("v1/sessions", json={"template": "keys", **body})

    def put(self, owner, name, **more):
        """PUT of a credential at the first replica; its value."""
        value = secrets.token_hex(20)
        body = {"kind": "bearer", "hosts": [f"api.test:{self.keeper.port}"], "value": value, **more}
        reply = self.setting[owner].put(f"v1/credentials/{name}", json=body)
        assert reply.status_code == 200, reply.text
        return value

    def close(self):
        """Ends all."""
        for replica in self.replicas:
            replica.stop()
        self.postgres.stop()
        self.keeper.close()


@pytest.fixture(scope="module")
def owners(tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = Owners(tmp_path_factory.mktemp("owners"))
    yield made
    made.close()


@pytest.fixture
def clients(owners):
    """A client of a session of each owner."""
    opened = {}
    for owner, http in owners.serving.items():
        reply = owners.start(owner)
        assert reply.status_code == 201, reply.text
        opened[owner] = reply.json()["id"]
    channels = {owner: Channels(owners.replicas[1], session) for owner, session in opened.items()}
    yield channels
    for owner, http in owners.serving.items():
        channels[owner].close()
        assert http.delete(f"v1/sessions/{opened[owner]}").status_code == 204


def ways(owners, name="api"):
    """Both URLs of the host."""
    return [f"http://{name}.credential.internal/", f"https://api.test:{owners.keeper.port}/"]


# A connection that stays open, as clients of APIs have it.
KEPT = "import os, requests\nif 'kept' not in globals(): kept = requests.Session()\nprint(kept.get({!r}, headers={{'authorization': 'Bearer ' + os.environ['API_KEY']}}).text)"


def test_what_was_set_at_one_replica_counts_for_the_next_request_at_another(owners, clients):
    client = clients["operator"]
    for _ in range(3):
        value = owners.put("operator", "api")
        for url in ways(owners):
            text = says(client, KEPT.format(url))
            assert owners.keeper.last()["authorization"] == f"Bearer {value}" and value not in text, text
    # It counts at once, so the first request after it is refused, on connections that were used before as well.
    assert owners.setting["operator"].delete("v1/credentials/api").status_code == 204
    count = len(owners.keeper.requests)
    assert "credential_denied: the credential api does not exist, or was revoked" in says(client, KEPT.format(ways(owners)[0]))
    assert len(owners.keeper.requests) == count
    # A placeholder without a credential stays one.
    says(client, KEPT.format(ways(owners)[1]))
    assert owners.keeper.last()["authorization"] == "Bearer himalia-credential-api-placeholder"


def test_a_tenant_uses_its_own_credential_and_no_other_tenants(owners, clients):
    values = {owner: owners.put(owner, "api") for owner in ("operator", "acme", "other")}
    only = owners.put("acme", "only")
    for owner, client in clients.items():
        for url in ways(owners):
            text = asks(client, url)
            assert owners.keeper.last()["authorization"] == f"Bearer {values[owner]}", (owner, url, text)
            assert not any(value in text for value in [*values.values(), only])
    asks(clients["acme"], "http://only.credential.internal/")
    assert owners.keeper.last()["authorization"] == f"Bearer {only}"
    count = len(owners.keeper.requests)
    for owner in ("other", "operator"):
        assert "credential_denied: the credential only does not exist" in asks(clients[owner], "http://only.credential.internal/")
    assert len(owners.keeper.requests) == count
    # The placeholder of another tenant's credential is none.
    code = f"import os, requests; requests.get({ways(owners)[1]!r}, headers={{'authorization': 'Bearer ' + os.environ['ONLY_KEY']}})"
    says(clients["other"], code)
    assert owners.keeper.last()["authorization"] == "Bearer himalia-credential-only-placeholder"
    says(clients["acme"], code)
    assert owners.keeper.last()["authorization"] == f"Bearer {only}"
    # A tenant that deletes its own has that of the operator, and not another tenant's.
    assert owners.setting["other"].delete("v1/credentials/api").status_code == 204
    asks(clients["other"], ways(owners)[0])
    assert owners.keeper.last()["authorization"] == f"Bearer {values['operator']}"
    assert owners.setting["operator"].delete("v1/credentials/api").status_code == 204
    assert "credential_denied" in asks(clients["other"], ways(owners)[0])
    asks(clients["acme"], ways(owners)[0])
    assert owners.keeper.last()["authorization"] == f"Bearer {values['acme']}"
    log = "".join(replica.log.read_text() for replica in owners.replicas)
    assert " TRACE " in log and not any(value in log for value in [*values.values(), only])


def test_a_tenant_lists_and_changes_its_own_credentials_alone(owners):
    for owner in ("operator", "acme", "other"):
        owners.put(owner, "listed")
    owners.put("acme", "only")
    listed = lambda owner, **query: owners.serving[owner].get("v1/credentials", params=query)
    pairs = lambda reply: {(one["owner"], one["name"]) for one in reply.json()["credentials"]}
    assert {owner for owner, _ in pairs(listed("acme"))} == {"acme"} and ("acme", "only") in pairs(listed("acme"))
    assert {owner for owner, _ in pairs(listed("other"))} == {"other"} and "only" not in listed("other").text
    assert {owner for owner, _ in pairs(listed("operator"))} == {"operator", "acme", "other"}
    body = {"kind": "bearer", "hosts": ["api.test"], "value": "a-value-of-eve", "tenant": "acme"}
    answers = [
        listed("other", tenant="acme"),
        listed("other", tenant="operator"),
        owners.setting["other"].put("v1/credentials/only", json=body),
        owners.setting["other"].delete("v1/credentials/only", params={"tenant": "acme"}),
    ]
    assert [reply.status_code for reply in answers] == [403] * 4, [reply.text for reply in answers]
    # The same answer for a tenant that does not exist.
    assert listed("other", tenant="absent").status_code == 403
    assert owners.setting["other"].delete("v1/credentials/only").status_code == 404
    refused = owners.start("other", credentials=["only"])
    assert refused.status_code == 422 and "the credential only does not exist" in refused.text, refused.text
    for owner in ("operator", "acme", "other"):
        assert owners.setting[owner].delete("v1/credentials/listed").status_code == 204
    assert owners.setting["acme"].delete("v1/credentials/only").status_code == 204
