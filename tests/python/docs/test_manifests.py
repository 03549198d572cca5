"""The manifests of gateways in a cluster: no volume fills the disk of a node, and secrets are for the group of the pod alone."""

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
