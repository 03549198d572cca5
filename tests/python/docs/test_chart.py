"""The Helm chart makes the same objects as the Kustomize base, except those that only one of the two tools needs."""

import os
import platform
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
KUSTOMIZE = ROOT / "docker" / "kubernetes"
CHART = ROOT / "packaging" / "chart" / "himalia"
HELM = os.environ.get("HIMALIA_TEST_HELM", ROOT / "target" / "chart-env" / "bin" / "helm")
# `helm install --create-namespace` makes the namespace of the gateway.
BY_HELM = {("Namespace", None, "himalia")}
# The package of Helm has no program for other machines.
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="tests/chart/requirements.in has no Helm for this machine")


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
    """The objects of the chart by their keys, as Helm renders them."""
    command = [HELM, "template", "himalia", CHART, "--namespace", "himalia", "--set", f"store={store}"]
    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return {key(thing): thing for thing in yaml.safe_load_all(made) if thing}


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


def test_a_wrong_value_is_refused_by_its_name():
    command = [HELM, "template", "himalia", CHART, "--set", "store=sqlite", "--set", "kernels.memroy=1GiB"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "memroy" in done.stderr, done.stderr


def test_helm_finds_nothing_to_correct():
    done = subprocess.run([HELM, "lint", "--strict", CHART], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
