"""Prompts with several replicas: one list, an answer at any of them, and approvals that all of them know."""

import json
import time
import uuid

import httpx
import pytest
from replicas import Replicas
from upstream import Orders
from waiting import eventually
from webhooks import Receiver, signature

pytestmark = pytest.mark.timeout(300)
CONFIG = """
callback_addresses = ["127.0.0.1:{port}"]
credentials_key_file = "{key}"
[tool_servers.orders]
url = "{orders}"
description = "Orders of the shop."
[templates.tools]
kernelspec = "python3"
tools = ["orders"]
"""


@pytest.fixture
def receiver():
    """A receiver of prompts."""
    started = Receiver()
    yield started
    started.stop()


@pytest.fixture
def replicas(tmp_path, postgres, kernel_python, receiver):
    """Two that relay to each other, with a server of tools."""
    orders = Orders(tmp_path)
    key = tmp_path / "keys"
    key.write_text("ab" * 32 + "\n")
    key.chmod(0o600)
    config = tmp_path / "himalia.toml"
    config.write_text(CONFIG.format(port=receiver.port, key=key, orders=orders.url))
    objects = f"file://{tmp_path / 'objects'}"
    started = Replicas(tmp_path, postgres, 2, "--object-store", objects, "--config", str(config), relay=True)
    yield started
    started.stop()
    orders.close()


def answer(replica, hook, prompt):
    """Answer a prompt by a signed message at a replica."""
    body = json.dumps({"prompt": prompt, "value": "Ada"}).encode()
    message, stamp = f"msg_{uuid.uuid4().hex}", str(int(time.time()))
    signed = {
        "webhook-id": message,
        "webhook-timestamp": stamp,
        "webhook-signature": signature(hook["answer_secret"], message, stamp, body),
    }
    url = f"http://{replica.listen}/hooks/{hook['id']}/prompts/{prompt}"
    return httpx.post(url, content=body, headers=signed, trust_env=False, timeout=60)


def test_what_waits_anywhere_is_listed_and_answered_at_each_replica(replicas, receiver):
    first, second = replicas.all
    hook = second.http.post("v1/prompt-webhooks", json={"name": "people", "url": receiver.url}).json()
    sessions = [replica.http.post("v1/sessions", json={}).json()["id"] for replica in replicas.all]
    for session in sessions:
        code = {"code": "print(input('Who? '))", "background": True, "allow_stdin": True}
        first.http.post(f"v1/sessions/{session}/executions", json=code).raise_for_status()
    listed = lambda replica: replica.http.get("v1/prompts").json()["prompts"]  # noqa: E731
    prompts = eventually(lambda: len(found := listed(second)) == 2 and found, "both wait", 60)
    assert listed(first) == prompts and {one["session"] for one in prompts} == set(sessions)
    told = lambda: {(data := json.loads(body)["data"])["prompt"]["id"]: data for _, body in receiver.seen}  # noqa: E731
    eventually(lambda: len(told()) == 2, "both are posted", 60)
    assert len(receiver.seen) == 2, "once each"
    # By a signed message at the replica that has not the session, and as ever.
    for prompt, replica in zip(prompts, replicas.all, strict=True):
        elsewhere = next(one for one in replicas.all if one is not replica)
        for at in (elsewhere, replica):
            assert told()[prompt["id"]]["answer"] == f"/hooks/{hook['id']}/prompts/{prompt['id']}"
            reply = answer(at, hook, prompt["id"])
            assert reply.status_code == (200 if at is elsewhere else 409), reply.text
        assert replica.http.get(f"v1/prompts/{prompt['id']}").json()["answered_by"] == "operator"
    eventually(lambda: listed(first) == listed(second) == [], "nothing waits", 60)
    # A webhook answers what was posted to it: not a password, at whichever replica the answer comes.
    code = {"code": "import getpass; getpass.getpass('Word? ')", "background": True, "allow_stdin": True}
    first.http.post(f"v1/sessions/{sessions[0]}/executions", json=code).raise_for_status()
    [password] = eventually(lambda: listed(second), "a password is asked", 60)
    assert password["password"] is True
    for at in replicas.all:
        refused = answer(at, hook, password["id"])
        assert refused.status_code == 404 and "prompt" in refused.text.lower(), refused.text
    assert listed(first) == [password] and len(receiver.seen) == 2


def test_an_approval_counts_at_all_replicas_until_it_is_revoked(replicas):
    first, second = replicas.all
    call = {"tool": "orders.create_order", "arguments": {"customer": "ada", "amount": 7}}

    def called(replica):
        session = replica.http.post("v1/sessions", json={"template": "tools"}).json()["id"]
        servers = f"v1/sessions/{session}/tools/servers"
        eventually(lambda: replica.http.get(servers).json()["servers"][0]["ready"], "the server is there", 60)
        return replica.http.post(f"v1/sessions/{session}/tools/calls", json=call)

    needed = called(first)
    assert needed.json()["code"] == "approval_needed", needed.text
    [prompt] = second.http.get("v1/prompts").json()["prompts"]
    assert second.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": "always"}).status_code == 200
    assert second.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": "deny"}).status_code == 409
    assert [called(replica).status_code for replica in replicas.all] == [200, 200]
    [approval] = second.http.get("v1/tool-approvals").json()["approvals"]
    assert first.http.delete(f"v1/tool-approvals/{approval['id']}").status_code == 204
    assert first.http.delete(f"v1/tool-approvals/{approval['id']}").status_code == 404
    assert [called(replica).json()["code"] for replica in replicas.all] == ["approval_needed"] * 2
