"""The Helm chart makes the same objects as the Kustomize base, except those that only one of the two tools needs."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
KUSTOMIZE = ROOT / "docker" / "kubernetes"
CHART = ROOT / "packaging" / "chart" / "himalia"
# `helm install --create-namespace` makes the namespace of the gateway.
BY_HELM = {("Namespace", None, "himalia")}


def key(thing):
    return thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"]


def kustomized(store):
    """The objects of an overlay by their keys: its base, its own files, and what its generator and its images change."""
    overlay = KUSTOMIZE / store
    files, settings = [], yaml.safe_load((overlay / "kustomization.yaml").read_text())
    for name in settings["resources"]:
        path = overlay / name
        if path.is_dir():
            base = yaml.safe_load((path / "kustomization.yaml").read_text())
            assert base.keys() == {"apiVersion", "kind", "resources"}, "this test has to learn more of Kustomize"
            files += [path / name for name in base["resources"]]
        else:
            files.append(path)
    assert settings.keys() == {"apiVersion", "kind", "resources", "configMapGenerator", "images"}, "this test has to learn more of Kustomize"
    things = [thing for file in files for thing in yaml.safe_load_all(file.read_text()) if thing]
    for generated in settings["configMapGenerator"]:
        data = {name: (overlay / name).read_text() for name in generated["files"]}
        metadata = {"name": generated["name"], "namespace": generated["namespace"]}
        things.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    [image] = settings["images"]
    for thing in things:
        if thing["kind"] == "StatefulSet":
            for container in thing["spec"]["template"]["spec"]["containers"]:
                assert container["image"] == image["name"]
                container["image"] = f"{image['newName']}:{image['newTag']}"
    return {key(thing): thing for thing in things}


def rendered(store):
    """The objects of the chart by their keys."""
    python = os.environ.get("HIMALIA_CHART_PYTHON", ROOT / "target" / "chart-env" / "bin" / "python")
    command = [python, ROOT / "tests" / "chart" / "render.py", CHART, store]
    files = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    manifests = [text for path, text in files.items() if path.endswith(".yaml")]
    return {key(thing): thing for text in manifests for thing in yaml.safe_load_all(text) if thing}


def without_comments(thing):
    """Settings without comments, and pods without the annotation that replaces them after a change (Kustomize renames its ConfigMap)."""
    if thing["kind"] == "ConfigMap":
        lines = (line for text in thing["data"].values() for line in text.splitlines())
        return {**thing, "data": [line for line in lines if line and not line.startswith("#")]}
    if thing["kind"] == "StatefulSet":
        thing["spec"]["template"]["metadata"].pop("annotations", None)
    return thing


@pytest.mark.parametrize("store", ["sqlite", "postgres-s3"])
def test_the_chart_is_the_kustomize_base(store):
    expected, found = kustomized(store), rendered(store)
    assert expected.keys() - BY_HELM == found.keys()
    for name, thing in found.items():
        assert without_comments(thing) == without_comments(expected[name]), name
