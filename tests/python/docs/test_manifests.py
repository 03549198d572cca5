"""The manifests of gateways in a cluster: volumes are bounded, secrets are private, and replicas have the keys that they share."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
GATEWAYS = sorted((ROOT / "docker" / "kubernetes").glob("*/gateway.yaml"))


def volumes(path):
    """The volumes of the pods that a manifest makes."""
    for document in yaml.safe_load_all(path.read_text()):
        template = document.get("spec", {}).get("template", {})
        yield from template.get("spec", {}).get("volumes", [])


@pytest.mark.parametrize("path", GATEWAYS, ids=[path.parent.name for path in GATEWAYS])
def test_volumes_are_bounded_and_secrets_are_private(path):
    found = list(volumes(path))
    empty = [volume for volume in found if "emptyDir" in volume]
    secret = [volume for volume in found if "secret" in volume]
    assert empty and secret, found
    assert [volume["name"] for volume in empty if "sizeLimit" not in volume["emptyDir"]] == []
    assert [volume["name"] for volume in secret if volume["secret"].get("defaultMode") != 0o440] == []


def made_by(page, secret):
    """The keys of a secret that a page creates from files."""
    text = page.read_text().replace("\\\n", " ")
    return set(re.findall(r"--from-file=(\S+)", re.search(rf"create secret generic {secret} (.*)", text)[1]))


def named_in(text):
    """The keys of the secret `himalia-keys` that a configuration names."""
    return set(re.findall(r'"/run/secrets/himalia-keys/([^"]+)"', text))


def test_the_keys_of_three_replicas_are_made_as_the_tutorial_shows():
    page = ROOT / "docs" / "operate" / "kubernetes.md"
    settings = (ROOT / "docker" / "kubernetes" / "postgres-s3" / "himalia.toml").read_text()
    tenants = re.search(r"<!-- cluster -->\n```toml\n(.*?)^```$", page.read_text(), re.S | re.M)[1]
    made = made_by(ROOT / "docs" / "tutorials" / "kubernetes.md", "himalia-keys")
    assert set(re.findall(r"^\| `(\w+\.(?:pem|key))` \|", page.read_text(), re.M)) == made
    assert named_in(settings) <= made
    # The page names the additional file of the example where it names the example.
    assert named_in(settings) | named_in(tenants) == made | {"oidc-client"}
    # Without these, a gateway that shares a store keeps no secrets, and starts with no identity provider.
    assert {"credentials_key_file", "replica_key", "kubernetes"} <= tomllib.loads(settings).keys()
    assert "cookie_key_file" in tomllib.loads(tenants)["oidc"]


def test_the_ingress_of_the_tutorial_leads_to_the_service():
    page = (ROOT / "docs" / "tutorials" / "kubernetes.md").read_text()
    ingress = yaml.safe_load(re.search(r"<!-- ingress -->\n```yaml\n(.*?)^```$", page, re.S | re.M)[1])
    service = yaml.safe_load((ROOT / "docker" / "kubernetes" / "base" / "service.yaml").read_text())
    [rule], [tls] = ingress["spec"]["rules"], ingress["spec"]["tls"]
    assert tls["hosts"] == [rule["host"]] and f"create secret tls {tls['secretName']} " in page
    [path] = rule["http"]["paths"]
    backend = path["backend"]["service"]
    assert (ingress["metadata"]["namespace"], backend["name"]) == (service["metadata"]["namespace"], service["metadata"]["name"])
    assert backend["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]
