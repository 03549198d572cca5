"""Webhooks and callbacks on a gateway with real kernels: signed messages in, signed results out, each once."""

import json
import subprocess
import threading
import time
import uuid

import httpx
import pytest
from servers import Himalia, client_with
from terminal import command
from waiting import eventually
from webhooks import Receiver, signature

MAIN = """\
def main(account, source="unknown"):
    if account == "wrong":
        raise ValueError("no such account")
    return {"account": account, "source": source}
"""
MANIFEST = {
    "name": "greet",
    "version": "1.0.0",
    "kind": "code",
    "description": "Returns its inputs.",
    "inputs": {
        "type": "object",
        "properties": {"account": {"type": "string"}, "source": {"type": "string"}},
        "required": ["account"],
        "additionalProperties": False,
    },
    "outputs": {"type": "object"},
}
OVER = ("succeeded", "failed", "cancelled")


def send(hook, body, secret=None, message=None, when=None, **headers):
    """Send a signed message to a webhook."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    message, stamp = message or f"msg_{uuid.uuid4().hex}", str(int(when or time.time()))
    signed = {
        "webhook-id": message,
        "webhook-timestamp": stamp,
        "webhook-signature": signature(secret or hook["secret"], message, stamp, body),
    }
    return httpx.post(hook["url"], content=body, headers=signed | headers, trust_env=False, timeout=60)


@pytest.fixture
def receiver():
    """A receiver of callbacks."""
    started = Receiver()
    yield started
    started.stop()


@pytest.fixture
def gateway(tmp_path, kernel_python, receiver):
    """A gateway with a key for secrets, that may reach the receiver."""
    key = tmp_path / "keys"
    key.write_text("ab" * 32 + "\n")
    key.chmod(0o600)
    config = tmp_path / "himalia.toml"
    config.write_text(f'callback_addresses = ["127.0.0.1:{receiver.port}"]\ncredentials_key_file = "{key}"\n[tenants.acme]\n')
    own = Himalia(tmp_path / "gateway", "--config", str(config))
    body = {"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}
    assert own.http.post("v1/skills", json=body).status_code == 201
    yield own
    own.stop()


def hook_of(server, name="incoming", **members):
    """Create a webhook."""
    reply = server.http.post("v1/webhooks", json={"name": name, "target": {"skill": "greet"}} | members)
    assert reply.status_code == 201, reply.text
    assert reply.headers["cache-control"] == "no-store"
    return at(server, reply.json())


def at(server, hook):
    """A webhook with its whole address."""
    return {**hook, "url": f"http://{server.listen}{hook['path']}"}


def runs(server, name="incoming"):
    """The runs of a webhook, the latest first."""
    return server.http.get("v1/runs", params={"webhook": name}).json()["runs"]


def over(server, run, name="incoming"):
    """A run when it has ended."""

    def ended():
        found = server.http.get(f"v1/runs/{run}").json()
        return found if found["status"] in OVER else None

    return eventually(ended, lambda: runs(server, name), 60)


def test_a_signed_message_is_one_run_however_often_it_comes(gateway):
    hook = hook_of(gateway, inputs={"source": "shop"})
    assert hook["secret"].startswith("whsec_") and hook["callback_secret"] is None
    shown = gateway.http.get("v1/webhooks/incoming").json()
    assert "secret" not in shown and hook["secret"] not in json.dumps(shown)
    first = send(hook, {"account": "a", "source": "forged"}, message="msg_1")
    assert first.status_code == 202, first.text
    run = over(gateway, first.json()["run"])
    assert (run["status"], run["outputs"]) == ("succeeded", {"account": "a", "source": "shop"})
    assert run["origin"] == {"kind": "webhook", "id": hook["id"]}
    again = eventually(
        lambda: (reply := send(hook, {"account": "a"}, message="msg_1")).json()["status"] == "succeeded" and reply, lambda: runs(gateway), 30
    )
    assert (again.status_code, again.json()) == (202, {"run": run["id"], "status": "succeeded"})
    assert len(runs(gateway)) == 1
    gateway.kill()
    gateway.start()
    assert send(hook, {"account": "a"}, message="msg_1").json()["run"] == run["id"]
    assert send(hook, {"account": "b"}).json()["run"] != run["id"]


def test_a_message_starts_a_workflow_and_its_end_is_posted(gateway, receiver):
    definition = {
        "name": "welcome",
        "version": "1.0.0",
        "description": "Greets.",
        "inputs": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
        "steps": [{"id": "greet", "skill": {"name": "greet"}, "inputs": {"account": {"from": "inputs.account"}}}],
        "outputs": {"greeted": {"from": "steps.greet.outputs.account"}},
    }
    assert gateway.http.post("v1/workflows", json={"definition": definition}).status_code == 201
    hook = hook_of(gateway, target={"workflow": "welcome"}, callback=receiver.url)
    assert hook["target"] == {"workflow": "welcome"}
    wrong = send(hook, {"account": 1})
    assert wrong.status_code == 400 and "inputs" in wrong.text, wrong.text
    first = send(hook, {"account": "a"}, message="msg_1")
    gateway.kill()
    gateway.start()
    again = send(hook, {"account": "a"}, message="msg_1")
    assert again.json()["run"] == first.json()["run"], (first.text, again.text)
    run = over(gateway, first.json()["run"])
    assert (run["status"], run["outputs"]) == ("succeeded", {"greeted": "a"}), run
    listed = gateway.http.get("v1/runs?workflow=welcome").json()["runs"]
    assert [one["id"] for one in listed] == [run["id"]]
    eventually(lambda: receiver.seen, "nothing has arrived", 60)
    data = json.loads(receiver.seen[0][1])["data"]
    assert (data["status"], data["run"], data["execution"]) == ("succeeded", run["id"], None), data


def test_what_is_not_signed_well_is_refused_without_a_word_and_starts_nothing(gateway):
    hook = hook_of(gateway)
    other = hook_of(gateway, "other")
    refused = [
        send(hook, {"account": "a"}, secret=other["secret"]),
        send(hook, {"account": "a"}, when=time.time() - 400),
        send(hook, {"account": "a"}, when=time.time() + 400),
        send(hook, {"account": "a"}, **{"webhook-id": "msg_other"}),
        send(hook, {"account": "a"}, **{"webhook-signature": ""}),
        httpx.post(hook["url"], json={"account": "a"}, trust_env=False),
        send({**hook, "url": hook["url"].replace(hook["id"], str(uuid.uuid4()))}, {"account": "a"}),
        send({**hook, "url": hook["url"].replace(hook["id"], "x")}, {"account": "a"}),
    ]
    assert {reply.status_code for reply in refused} == {401}
    assert len({reply.text for reply in refused}) == 1, "none says more than another"
    assert runs(gateway) == []
    # A right one is taken from an address that guesses.
    for _ in range(5):
        guess = send(hook, {"account": "a"}, secret=other["secret"])
    assert guess.status_code == 429
    assert send(hook, {"account": "a"}).status_code == 202
    # Its sender learns what is wrong with a message that it signed.
    for body, field in [({}, "inputs"), ([1], "body"), (b"{", "body")]:
        reply = send(hook, body)
        assert reply.status_code == 400 and field in reply.text, reply.text
    assert send(hook, b" " * 200_000).status_code == 413
    assert gateway.http.patch("v1/webhooks/incoming", json={"enabled": False}).status_code == 200
    assert send(hook, {"account": "a"}).status_code == 409


def test_a_webhook_ends_with_the_token_of_its_caller(gateway):
    made = gateway.http.post("v1/tokens", json={"caller": "ada", "scope": "execute", "tenant": "acme"}).json()
    http = client_with(gateway, made["token"])
    body = {"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}
    assert http.post("v1/skills", json=body).status_code == 201
    hook = at(gateway, http.post("v1/webhooks", json={"name": "mine", "target": {"skill": "greet"}}).json())
    run = send(hook, {"account": "a"}).json()["run"]
    eventually(
        lambda: http.get("v1/runs?webhook=mine").json()["runs"][0]["status"] == "succeeded", lambda: http.get("v1/runs?webhook=mine").text, 60
    )
    session = http.get(f"v1/runs/{run}").json()["session"]
    assert gateway.http.get(f"v1/sessions/{session}").json()["owner"] == "acme"
    assert gateway.http.delete(f"v1/tokens/{made['id']}").status_code == 200
    assert send(hook, {"account": "a"}).status_code == 409


def test_results_are_posted_with_a_signature_and_again_until_they_arrive(gateway, receiver):
    hook = hook_of(gateway, callback=receiver.url)
    receiver.statuses = [500, 302]
    run = over(gateway, send(hook, {"account": "a"}).json()["run"])

    def delivered():
        # There is none before the gateway has noted the end of the run.
        deliveries = gateway.http.get("v1/webhooks/incoming/deliveries").json()["deliveries"]
        if not deliveries:
            return None
        (delivery,) = deliveries
        return delivery if len(delivery["attempts"]) == 2 else None

    delivery = eventually(delivered, lambda: gateway.http.get("v1/webhooks/incoming/deliveries").text, 60)
    # No redirect is followed.
    assert [attempt["status"] for attempt in delivery["attempts"]] == [500, 302] and delivery["state"] == "pending"
    gateway.kill()
    gateway.start()
    retry = lambda: gateway.http.post(f"v1/deliveries/{delivery['id']}/retry", json={})  # noqa: E731
    eventually(lambda: retry().status_code == 202, lambda: retry().text, 60)
    eventually(lambda: len(receiver.seen) == 3, lambda: len(receiver.seen), 60)
    delivery = eventually(
        lambda: next(
            (one for one in gateway.http.get("v1/webhooks/incoming/deliveries").json()["deliveries"] if one["state"] == "delivered"), None
        ),
        "it is not delivered",
        30,
    )
    assert delivery["run"] == run["id"] and delivery["next_attempt"] is None
    for headers, body in receiver.seen:
        stamp, message = headers["webhook-timestamp"], headers["webhook-id"]
        assert headers["webhook-signature"] == signature(hook["callback_secret"], message, stamp, body)
        told = json.loads(body)
        assert (told["type"], told["data"]["run"], told["data"]["outputs"]) == ("run.ended", run["id"], run["outputs"])
        assert told["data"]["origin"] == {"kind": "webhook", "id": hook["id"], "name": "incoming"}
    assert len({headers["webhook-id"] for headers, _ in receiver.seen}) == 1


def test_a_failed_run_of_a_schedule_is_posted_too(gateway, receiver):
    new = {
        "name": "nightly",
        "cron": "0 0 1 1 *",
        "target": {"skill": "greet"},
        "inputs": {"account": "wrong"},
        "callback": receiver.url,
    }
    reply = gateway.http.post("v1/schedules", json=new)
    made = reply.json()
    assert reply.headers["cache-control"] == "no-store" and reply.headers["location"].endswith(f"/v1/schedules/{made['id']}")
    assert gateway.http.post("v1/schedules/nightly/runs", json={}).status_code == 202
    eventually(lambda: receiver.seen, "nothing has arrived", 60)
    ((headers, body),) = receiver.seen
    assert headers["webhook-signature"] == signature(
        made["callback_secret"], headers["webhook-id"], headers["webhook-timestamp"], body
    )
    data = json.loads(body)["data"]
    assert (data["status"], data["error"]["message"], data["origin"]["name"]) == ("failed", "ValueError: no such account", "nightly")


def test_a_callback_reaches_nothing_of_the_gateways_own_network(gateway):
    hook = hook_of(gateway, callback=f"http://{gateway.listen}/v1/gc")
    over(gateway, send(hook, {"account": "a"}).json()["run"])

    def tried():
        # There is none before the gateway has noted the end of the run.
        deliveries = gateway.http.get("v1/webhooks/incoming/deliveries").json()["deliveries"]
        if not deliveries:
            return None
        (delivery,) = deliveries
        return delivery["attempts"]

    (attempt, *_) = eventually(tried, lambda: gateway.http.get("v1/webhooks/incoming/deliveries").text, 60)
    assert attempt["status"] is None and "127.0.0.1" in attempt["error"], attempt
    for wrong in ("ftp://example.org/", "x", "http://"):
        reply = gateway.http.post("v1/webhooks", json={"name": "w", "target": {"skill": "greet"}, "callback": wrong})
        assert (reply.status_code, reply.json()["field"]) == (400, "callback"), reply.text


def test_the_command_line_makes_and_shows_webhooks(gateway, receiver):
    def himalia(*arguments):
        argv = command(gateway, "webhook", *arguments)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    made = himalia("add", "orders", "--skill", "greet", "--input", "source=shop", "--callback", receiver.url, "--json")
    assert made.returncode == 0, made
    hook = at(gateway, json.loads(made.stdout))
    over(gateway, send(hook, {"account": "a"}).json()["run"], "orders")
    eventually(lambda: receiver.seen, "nothing has arrived", 60)
    shown = eventually(lambda: (found := himalia("show", "orders").stdout) and "delivered" in found and found, "not shown", 30)
    assert "succeeded" in shown and hook["secret"] not in shown
    delivery = json.loads(himalia("show", "orders", "--json").stdout)["deliveries"][0]["id"]
    eventually(lambda: himalia("retry", delivery).returncode == 0, lambda: himalia("retry", delivery), 60)
    assert "paused" in himalia("pause", "orders").stdout
    assert himalia("rm", "orders").returncode == 0 and himalia("ls").stdout == "no webhooks\n"
