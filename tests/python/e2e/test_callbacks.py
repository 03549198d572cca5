"""Callbacks of runs that a client starts, on a gateway with real kernels: their results are posted, signed, whatever happens to gateways."""

import json
import subprocess

import pytest
from replicas import Replicas
from servers import Himalia, client_with
from terminal import command
from waiting import eventually
from webhooks import Receiver, signature

MAIN = """\
import time

def main(account, seconds=0):
    time.sleep(seconds)
    if account == "wrong":
        raise ValueError("no such account")
    return {"account": account}
"""
INPUTS = {
    "type": "object",
    "properties": {"account": {"type": "string"}, "seconds": {"type": "number"}},
    "required": ["account"],
    "additionalProperties": False,
}
MANIFEST = {
    "name": "greet",
    "version": "1.0.0",
    "kind": "code",
    "description": "Returns its input.",
    "inputs": INPUTS,
    "outputs": {"type": "object"},
}
WORKFLOW = {
    "name": "welcome",
    "version": "2.0.0",
    "description": "Greets.",
    "inputs": INPUTS,
    "steps": [
        {
            "id": "greet",
            "skill": {"name": "greet"},
            "inputs": {"account": {"from": "inputs.account"}, "seconds": {"from": "inputs.seconds"}},
        }
    ],
    "outputs": {"greeted": {"from": "steps.greet.outputs.account"}},
}
SKILL_RUNS, WORKFLOW_RUNS = "v1/skills/greet/runs", "v1/workflows/welcome/runs"


def publish(http):
    """Publish the skill and the workflow of this file."""
    assert http.post("v1/skills", json={"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}).status_code == 201
    assert http.post("v1/workflows", json={"definition": WORKFLOW}).status_code == 201


def settings(tmp_path, receiver):
    """A configuration with a key for secrets, that may reach the receiver."""
    key = tmp_path / "keys"
    key.write_text("ab" * 32 + "\n")
    key.chmod(0o600)
    config = tmp_path / "himalia.toml"
    config.write_text(
        f'callback_addresses = ["127.0.0.1:{receiver.port}"]\ncredentials_key_file = "{key}"\n[tenants.acme]\n[tenants.evil]\n'
    )
    return str(config)


@pytest.fixture
def receiver():
    """A receiver of callbacks."""
    started = Receiver()
    yield started
    started.stop()


@pytest.fixture
def gateway(tmp_path, kernel_python, receiver):
    """A gateway with the skill and the workflow."""
    own = Himalia(tmp_path / "gateway", "--config", settings(tmp_path, receiver))
    publish(own.http)
    yield own
    own.stop()


def start(http, path, receiver, account="a", seconds=0, headers=None, **members):
    """Start a run with a callback; the response."""
    body = {"inputs": {"account": account, "seconds": seconds}, "wait_s": 0, "callback": receiver.url} | members
    reply = http.post(path, json=body, headers=headers or {})
    assert reply.status_code in (200, 201, 202), reply.text
    assert reply.headers["cache-control"] == "no-store" and reply.json()["callback_secret"].startswith("whsec_")
    return reply.json()


def posted(receiver, run, count=1):
    """What has come of a run, once it came so often: all is signed with its secret, and is one message."""

    def here():
        found = [(headers, body) for headers, body in list(receiver.seen) if json.loads(body)["data"]["run"] == run["id"]]
        return found if len(found) >= count else None

    found = eventually(here, lambda: receiver.seen, 120)
    assert len(found) == count
    for headers, body in found:
        message, stamp = headers["webhook-id"], headers["webhook-timestamp"]
        assert headers["webhook-signature"] == signature(run["callback_secret"], message, stamp, body)
    assert len({headers["webhook-id"] for headers, _ in found}) == 1 and len({body for _, body in found}) == 1
    told = json.loads(found[0][1])
    assert told["type"] == "run.ended"
    return told["data"]


def delivered(http, run):
    """The delivery of a run when it has arrived."""

    def over():
        (delivery,) = http.get(f"v1/runs/{run['id']}/deliveries").json()["deliveries"]
        return delivery if delivery["state"] == "delivered" else None

    return eventually(over, lambda: http.get(f"v1/runs/{run['id']}/deliveries").text, 60)


def test_the_end_of_a_workflow_is_posted_after_a_kill_and_until_it_arrives(gateway, receiver):
    receiver.statuses = [500]
    run = start(gateway.http, WORKFLOW_RUNS, receiver, seconds=2)
    assert run["status"] == "running"
    gateway.kill()
    gateway.start()
    shown = gateway.http.get(f"v1/runs/{run['id']}", params={"wait_s": 60}).json()
    assert shown["status"] == "succeeded" and "callback_secret" not in shown, shown
    # The first attempt has failed, and the gateway is killed before the second one.
    eventually(lambda: receiver.seen, "nothing has arrived", 60)
    gateway.kill()
    gateway.start()
    data = posted(receiver, run, 2)
    assert (data["status"], data["outputs"], data["execution"]) == ("succeeded", {"greeted": "a"}, None)
    assert (data["kind"], data["name"], data["version"], data["error"]) == ("workflow", "welcome", "2.0.0", None)
    assert data["origin"] == {"kind": "client", "id": None}
    delivery = delivered(gateway.http, run)
    assert [attempt["status"] for attempt in delivery["attempts"]][-1] == 204 and delivery["run"] == run["id"]
    # It is no trigger that is listed.
    for path, member in [("schedules", "schedules"), ("webhooks", "webhooks"), ("prompt-webhooks", "webhooks")]:
        assert gateway.http.get(f"v1/{path}").json()[member] == []


def test_the_end_of_a_skill_is_posted_after_a_kill(gateway, receiver):
    keyed = {"idempotency-key": "k"}
    run = start(gateway.http, SKILL_RUNS, receiver, seconds=3, headers=keyed)
    assert run["status"] == "running" and run["id"].startswith("run_")
    assert gateway.http.get(f"v1/runs/{run['id']}/deliveries").json()["deliveries"] == []
    gateway.kill()
    gateway.start()
    data = posted(receiver, run)
    assert (data["status"], data["outputs"], data["execution"]) == ("succeeded", {"account": "a"}, run["execution"])
    assert (data["kind"], data["name"], data["version"]) == ("skill", "greet", "1.0.0")
    delivered(gateway.http, run)
    # The same request again is the same run, with the same secret, and nothing more is posted.
    again = start(gateway.http, SKILL_RUNS, receiver, seconds=3, headers=keyed)
    assert (again["id"], again["callback_secret"]) == (run["id"], run["callback_secret"])
    body = {"inputs": {"account": "a", "seconds": 3}, "wait_s": 0}
    other = gateway.http.post(SKILL_RUNS, json=body, headers=keyed)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    failed = start(gateway.http, SKILL_RUNS, receiver, "wrong", wait_s=60)
    assert failed["status"] == "failed"
    data = posted(receiver, failed)
    assert (data["status"], data["error"]["message"], data["outputs"]) == ("failed", "ValueError: no such account", None)
    assert len(receiver.seen) == 2
    shown = gateway.http.get(f"v1/runs/{run['id']}").json()
    assert shown["status"] == "succeeded" and "callback_secret" not in shown


def test_a_callback_is_its_tenants_and_outlives_the_token_of_the_caller(gateway, receiver):
    def client(tenant, scope="execute"):
        made = gateway.http.post("v1/tokens", json={"caller": "ada", "scope": scope, "tenant": tenant}).json()
        return client_with(gateway, made["token"]), made["id"]

    (acme, token), (evil, _) = client("acme"), client("evil")
    publish(acme)
    runs = [start(acme, path, receiver, seconds=2) for path in (SKILL_RUNS, WORKFLOW_RUNS)]
    for run in runs:
        missing = evil.get(f"v1/runs/{run['id']}/deliveries")
        assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found"), missing.text
        assert acme.get(f"v1/runs/{run['id']}/deliveries").status_code == 200
    assert gateway.http.delete(f"v1/tokens/{token}").status_code == 200
    assert posted(receiver, runs[0])["status"] == "succeeded"
    # A run of a workflow ends with the token, and its callback says so.
    ended = posted(receiver, runs[1])
    assert ended["status"] == "cancelled" and "its token was revoked" in ended["error"]["message"], ended
    reader, _ = client("acme", "read")
    delivery = delivered(reader, runs[0])
    assert evil.post(f"v1/deliveries/{delivery['id']}/retry", json={}).status_code == 404
    assert reader.post(f"v1/deliveries/{delivery['id']}/retry", json={}).status_code == 403
    # It was just tried: a client waits before it asks for another attempt.
    retry = lambda: gateway.http.post(f"v1/deliveries/{delivery['id']}/retry", json={})  # noqa: E731
    early = retry()
    assert early.status_code == 429 and int(early.headers["retry-after"]) >= 1, early.text
    eventually(lambda: retry().status_code == 202, lambda: retry().text, 60)
    posted(receiver, runs[0], 2)


def test_a_callback_does_not_reach_the_private_addresses_of_sessions(tmp_path, kernel_python, receiver):
    config = settings(tmp_path, receiver)
    with open(config) as file:
        text = file.read()
    with open(config, "w") as file:
        file.write(text.replace("callback_addresses", "private_addresses"))
    own = Himalia(tmp_path / "gateway", "--config", config)
    try:
        publish(own.http)
        run = start(own.http, SKILL_RUNS, receiver)

        def tried():
            (delivery,) = own.http.get(f"v1/runs/{run['id']}/deliveries").json()["deliveries"] or [{"attempts": []}]
            return delivery["attempts"]

        [attempt] = eventually(tried, lambda: own.http.get(f"v1/runs/{run['id']}/deliveries").text, 60)
        assert attempt["status"] is None and attempt["error"], attempt
        assert receiver.seen == []
    finally:
        own.stop()


def test_a_run_with_a_callback_that_cannot_be_does_not_begin(gateway, receiver):
    for path in (SKILL_RUNS, WORKFLOW_RUNS):
        for wrong in ("ftp://example.org/", "x", "http://", ""):
            reply = gateway.http.post(path, json={"inputs": {"account": "a"}, "callback": wrong})
            assert (reply.status_code, reply.json()["field"]) == (400, "callback"), reply.text
    assert gateway.http.get("v1/runs").json()["runs"] == []
    assert gateway.http.get("v1/sessions", params={"ended": "true"}).json()["sessions"] == []
    # What the gateway must not reach is known when it is tried.
    run = start(gateway.http, SKILL_RUNS, receiver, callback=f"http://{gateway.listen}/v1/gc")

    def tried():
        found = gateway.http.get(f"v1/runs/{run['id']}/deliveries").json()["deliveries"]
        return found[0]["attempts"] if found else None

    (attempt, *_) = eventually(tried, lambda: gateway.http.get(f"v1/runs/{run['id']}/deliveries").text, 60)
    assert attempt["status"] is None and "127.0.0.1" in attempt["error"], attempt


def test_the_command_line_starts_runs_with_callbacks(gateway, receiver):
    for words, kind in [(("skill", "run", "greet"), "skill"), (("workflow", "run", "welcome"), "workflow")]:
        argv = command(gateway, *words, "--input", "account=a", "--callback", receiver.url)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done
        line = next(line for line in done.stderr.splitlines() if " is signed with " in line)
        run = {"id": line.split()[3], "callback_secret": line.split()[-1]}
        assert run["callback_secret"].startswith("whsec_") and run["callback_secret"] not in done.stdout
        told = posted(receiver, run)
        assert (told["kind"], told["name"]) == (kind, words[2])


def test_the_replica_that_is_left_posts_what_came_of_runs_of_a_lost_one(tmp_path, postgres, kernel_python, receiver):
    objects = f"file://{tmp_path / 'objects'}"
    replicas = Replicas(
        tmp_path, postgres, 2, "--object-store", objects, "--config", settings(tmp_path, receiver), lease="3s", relay=True
    )
    try:
        lost, left = replicas.all
        publish(lost.http)
        runs = [start(lost.http, path, receiver, seconds=4) for path in (SKILL_RUNS, WORKFLOW_RUNS)]
        lost.kill()
        for run in runs:
            assert posted(receiver, run)["status"] == "succeeded"
            assert delivered(left.http, run)["state"] == "delivered"
    finally:
        replicas.stop()
