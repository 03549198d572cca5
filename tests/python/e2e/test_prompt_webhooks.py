"""Prompts that are posted to a URL, signed, and answered by signed messages, each once."""

import json
import threading
import time
import uuid

import httpx
import pytest
from servers import Himalia, client_with
from waiting import eventually
from webhooks import Receiver, signature

TOKENS = {"ada": "token-of-ada-0123456789", "boss": "token-of-boss-0123456789", "eve": "token-of-eve-0123456789"}
CONFIG = """
callback_addresses = ["127.0.0.1:{port}"]
credentials_key_file = "{key}"
[tenants.acme]
tokens = {{ ada = "{ada}", boss = "{boss}" }}
scopes = {{ boss = "admin" }}
[tenants.other]
tokens = {{ eve = "{eve}" }}
scopes = {{ eve = "admin" }}
"""


@pytest.fixture
def receiver():
    """A receiver of prompts."""
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
    config.write_text(CONFIG.format(port=receiver.port, key=key, **TOKENS))
    own = Himalia(tmp_path / "gateway", "--config", str(config))
    yield own
    own.stop()


def hook_of(http, url, name="people"):
    """Create a webhook of prompts."""
    reply = http.post("v1/prompt-webhooks", json={"name": name, "url": url})
    assert reply.status_code == 201, reply.text
    return reply.json()


def told(receiver):
    """The prompts that were posted, without their signatures."""
    return [json.loads(body)["data"] for _, body in receiver.seen]


def answer(gateway, hook, data, value, secret=None, message=None, when=None, prompt=None):
    """Answer a prompt by a signed message."""
    body = json.dumps({"prompt": prompt or data["answer"].rsplit("/", 1)[1], "value": value}).encode()
    message, stamp = message or f"msg_{uuid.uuid4().hex}", str(int(when or time.time()))
    signed = {
        "webhook-id": message,
        "webhook-timestamp": stamp,
        "webhook-signature": signature(secret or hook["answer_secret"], message, stamp, body),
    }
    url = f"http://{gateway.listen}{data['answer']}"
    return httpx.post(url, content=body, headers=signed, trust_env=False, timeout=60)


def test_a_prompt_is_posted_once_and_the_first_signed_answer_counts(gateway, receiver):
    hook = hook_of(gateway.http, receiver.url)
    session = gateway.start_session()
    asked = {"text": "May it?", "options": ["yes", "no"]}
    prompt = gateway.http.post(f"v1/sessions/{session}/prompts", json=asked).json()
    headers, body = eventually(lambda: receiver.seen, "it is posted", 60)[0]
    signed = signature(hook["secret"], headers["webhook-id"], headers["webhook-timestamp"], body)
    assert headers["webhook-signature"] == signed and json.loads(body)["type"] == "prompt.asked"
    [data] = told(receiver)
    assert data == {"prompt": prompt, "answer": f"/hooks/{hook['id']}/prompts/{prompt['id']}"}
    # Signed with another secret, too old, or for another body.
    for refused in [
        answer(gateway, hook, data, "yes", secret=hook["secret"]),
        answer(gateway, hook, data, "yes", when=time.time() - 3600),
        httpx.post(f"http://{gateway.listen}{data['answer']}", json={"value": "yes"}, trust_env=False),
    ]:
        assert refused.status_code == 401, refused.text
    assert gateway.http.get(f"v1/prompts/{prompt['id']}").json()["state"] == "open"
    bad = answer(gateway, hook, data, "perhaps")
    assert bad.status_code == 400 and "value: the answer is not one of yes, no" in bad.text, bad.text
    replies = []
    both = [
        threading.Thread(target=lambda v=value: replies.append(answer(gateway, hook, data, v, message=f"msg_{v}")))
        for value in ["yes", "no"]
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(reply.status_code for reply in replies) == [200, 409]
    counted = next(reply.json() for reply in replies if reply.status_code == 200)
    assert counted["answered_by"] == "operator"
    # The same message again changes nothing.
    again = answer(gateway, hook, data, counted["answer"], message=f"msg_{counted['answer']}")
    assert again.status_code == 409 and "has answered a prompt before" in again.text, again.text
    other = answer(gateway, hook, data, counted["answer"])
    assert other.status_code == 409 and "the prompt has ended" in other.text, other.text
    assert gateway.http.get(f"v1/prompts/{prompt['id']}").json()["answer"] == counted["answer"]
    listed = gateway.http.get("v1/prompt-webhooks/people/deliveries").json()["deliveries"]
    assert [one["state"] for one in listed] == ["delivered"] and len(receiver.seen) == 1
    assert gateway.http.delete("v1/prompt-webhooks/people").status_code == 204
    assert answer(gateway, hook, data, "yes").status_code == 401


def test_what_was_posted_is_answered_after_a_kill_and_posted_once(gateway, receiver):
    hook = hook_of(gateway.http, receiver.url)
    session = gateway.start_session()
    code = "import getpass\nprint('hello', input('Who? '))\ngetpass.getpass('Word? ')"
    asked = {"code": code, "background": True, "allow_stdin": True}
    execution = gateway.http.post(f"v1/sessions/{session}/executions", json=asked).json()["id"]
    [data] = eventually(lambda: told(receiver), "it is posted", 60)
    assert (data["prompt"]["kind"], data["prompt"]["text"]) == ("input", "Who? ")
    gateway.kill()
    gateway.start()
    reply = eventually(lambda: (sent := answer(gateway, hook, data, "Ada")).status_code != 503 and sent, "it answers", 60)
    assert reply.status_code == 200, reply.text
    text = lambda: gateway.http.get(f"v1/executions/{execution}").json().get("text")  # noqa: E731
    assert eventually(text, "it continues", 60) == "hello Ada\n"
    # A password is typed by a person: it is asked in the list, and not posted.
    password = eventually(lambda: gateway.http.get("v1/prompts").json()["prompts"], "the password is asked", 60)
    assert password[0]["password"] is True
    not_posted = {"answer": f"/hooks/{hook['id']}/prompts/{password[0]['id']}"}
    assert answer(gateway, hook, not_posted, "word").status_code == 404
    question = gateway.http.post(f"v1/sessions/{session}/prompts", json={"text": "And then?"}).json()
    eventually(lambda: len(receiver.seen) > 1, "the next one is posted", 60)
    assert [one["prompt"]["id"] for one in told(receiver)] == [data["prompt"]["id"], question["id"]]


def test_a_signed_answer_fits_its_prompt_alone_and_once(gateway, receiver):
    hook = hook_of(gateway.http, receiver.url)
    session = gateway.start_session()
    for text in ["Order pizza?", "Pay 1,000,000?"]:
        gateway.http.post(f"v1/sessions/{session}/prompts", json={"text": text, "options": ["yes", "no"]})
    eventually(lambda: len(receiver.seen) == 2, "both are posted", 60)
    pizza, pay = sorted(told(receiver), key=lambda data: data["prompt"]["text"])
    assert answer(gateway, hook, pizza, "yes", message="msg_pizza").status_code == 200
    # The same bytes, sent to the path of the other one; the same id with a body of its own; a body without a prompt.
    replayed = answer(gateway, hook, pay, "yes", message="msg_pizza", prompt=pizza["prompt"]["id"])
    assert replayed.status_code == 400 and "prompt: must be the prompt of the path" in replayed.text, replayed.text
    used = answer(gateway, hook, pay, "yes", message="msg_pizza")
    assert used.status_code == 409 and "has answered a prompt before" in used.text, used.text
    gateway.kill()
    gateway.start()
    used = eventually(lambda: (sent := answer(gateway, hook, pay, "yes", message="msg_pizza")).status_code != 503 and sent, "it answers", 60)
    assert used.status_code == 409, used.text
    assert gateway.http.get(f"v1/prompts/{pay['prompt']['id']}").json()["state"] == "open"
    # An id whose answer did not count may be used again: the sender tries once more.
    assert answer(gateway, hook, pay, "perhaps", message="msg_pay").status_code == 400
    assert answer(gateway, hook, pay, "no", message="msg_pay").status_code == 200


def test_who_runs_code_neither_silences_approvals_nor_sees_where_they_go(gateway, receiver):
    http = {name: client_with(gateway, token) for name, token in TOKENS.items()}
    url = receiver.url + "/hidden?key=hidden"
    shown = f"http://127.0.0.1:{receiver.port}/…"
    made = hook_of(http["boss"], url)
    assert made["url"] == shown
    for gone in ["people", made["id"]]:
        refused = http["ada"].delete(f"v1/prompt-webhooks/{gone}")
        assert refused.status_code == 403, refused.text
    session = http["ada"].post("v1/sessions", json={}).json()["id"]
    http["ada"].post(f"v1/sessions/{session}/prompts", json={"text": "Which?"})
    eventually(lambda: told(receiver), "it is posted", 60)
    # The path and the query can be a secret: no caller sees them, as with other secrets.
    for name in ["ada", "boss"]:
        [listed] = http[name].get("v1/prompt-webhooks").json()["webhooks"]
        [delivery] = http[name].get("v1/prompt-webhooks/people/deliveries").json()["deliveries"]
        assert (listed["url"], delivery["url"]) == (shown, shown)
    retry = f"v1/deliveries/{delivery['id']}/retry"
    retried = eventually(lambda: (sent := http["ada"].post(retry)).status_code != 429 and sent, "it may be tried again", 60)
    assert retried.json()["url"] == shown, retried.text
    assert "hidden" not in gateway.log.read_text()
    http["ada"].delete(f"v1/sessions/{session}")
    assert http["boss"].delete("v1/prompt-webhooks/people").status_code == 204


def test_a_tenant_is_told_of_its_own_and_who_runs_code_makes_no_webhook(gateway, receiver):
    http = {name: client_with(gateway, token) for name, token in TOKENS.items()}
    refused = http["ada"].post("v1/prompt-webhooks", json={"name": "own", "url": receiver.url})
    assert refused.status_code == 403, refused.text
    wrong = http["boss"].post("v1/prompt-webhooks", json={"name": "own", "url": "ftp://example.org/"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "url"), wrong.text
    theirs = hook_of(http["eve"], receiver.url.replace("results", "eve"))
    made = http["boss"].post("v1/tokens", json={"caller": "service", "scope": "admin"}).json()
    with client_with(gateway, made["token"]) as service:
        own = hook_of(service, receiver.url)
    session = http["ada"].post("v1/sessions", json={}).json()["id"]
    prompt = http["ada"].post(f"v1/sessions/{session}/prompts", json={"text": "Which?"}).json()
    [data] = eventually(lambda: told(receiver), "it is posted", 60)
    assert data["answer"] == f"/hooks/{own['id']}/prompts/{prompt['id']}"
    assert http["eve"].get("v1/prompt-webhooks/people/deliveries").json()["deliveries"] == []
    assert [one["id"] for one in http["eve"].get("v1/prompt-webhooks").json()["webhooks"]] == [theirs["id"]]
    elsewhere = {"answer": f"/hooks/{theirs['id']}/prompts/{prompt['id']}"}
    assert answer(gateway, theirs, elsewhere, "that").status_code == 404
    # It answers as its maker, as long as that token counts.
    assert http["boss"].delete(f"v1/tokens/{made['id']}").status_code == 200
    ended = answer(gateway, own, data, "that")
    assert ended.status_code == 409 and "was revoked" in ended.text, ended.text
    assert http["ada"].get(f"v1/prompts/{prompt['id']}").json()["state"] == "open"
    http["ada"].delete(f"v1/sessions/{session}")
