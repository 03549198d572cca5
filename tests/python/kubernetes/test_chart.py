"""The chart on a real cluster: installed, upgraded while a session lives, uninstalled without a rest."""

import json

import pytest
from replica_pods import ChartPods, kubectl

pytestmark = pytest.mark.timeout(600)


def run(client, session, code):
    """The text of a cell that succeeds."""
    reply = client.post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": 60})
    assert reply.status_code in (200, 201) and reply.json()["status"] == "ok", reply.text
    return reply.json()["text"]


def test_a_release_is_installed_upgraded_and_uninstalled():
    pods = ChartPods()
    try:
        with pods.client("himalia-0") as client:
            made = client.post("v1/sessions", json={"template": "small"})
            assert made.status_code == 201, made.text
            session = made.json()["id"]
            run(client, session, "kept = 41")
        before = pods.pods()["himalia-0"]["metadata"]["uid"]
        # A change of settings replaces the gateway's pod. The pod of the session stays.
        pods.helm("upgrade", pods.values(settings="max_kernels = 7"))
        assert pods.pods()["himalia-0"]["metadata"]["uid"] != before
        with pods.client("himalia-0") as client:
            assert "42" in run(client, session, "print(kept + 1)")
        assert len(pods.sandboxes()) == 1
        budget = json.loads(kubectl("-n", pods.namespace, "get", "poddisruptionbudgets", "-o", "json"))
        assert [one["spec"]["maxUnavailable"] for one in budget["items"]] == [1]
    finally:
        pods.stop()
    assert not pods.pods() and not pods.sandboxes()
    left = kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")
    assert "himalia-chart" not in left
