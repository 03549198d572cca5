"""Code in a session asks language models without a key: within caps, and with a record of each call."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from events import follow
from levels import LEVELS, AtLevel, place
from models import Model
from servers import client_with
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if "ordinary" not in level]
TOKENS = {"acme": "token-of-ada-0123456789", "other": "token-of-eve-0123456789"}
SECRET = "sk-s3cret-s3cret-s3cret"

CONFIG = """
[credentials.models]
kind = "bearer"
hosts = ["{url}"]
value_env = "KEY_OF_MODELS"

[models.small]
url = "{url}/v1"
model = "there-small"
credential = "models"
input_price = 1
output_price = 10
max_output_tokens = 100

[models.large]
url = "{url}/v1/"
credential = "models"
call_time = 20

[models.own]
url = "{url}/v1"
tenant = "acme"

[tenants.acme]
tokens = {{ ada = "{acme}" }}
[tenants.other]
tokens = {{ eve = "{other}" }}

[templates.models]
kernelspec = "python3"
{place}memory = "512MiB"
models = ["small", "large", "own"]

[templates.few]
kernelspec = "python3"
{place}memory = "512MiB"
models = ["small"]
model_calls = 3
model_parallel = 2

[templates.cheap]
kernelspec = "python3"
{place}memory = "512MiB"
models = ["small"]
model_tokens = 1000
model_spend = 0.0016
"""


class World:
    """A server of models, and a gateway with them."""

    def __init__(self, directory, level):
        self.model = Model()
        text = CONFIG.format(url=self.model.url, place=place(level), **TOKENS)
        self.gateway = AtLevel(directory / "gateway", level, keeps=True, extra=text, env={"KEY_OF_MODELS": SECRET})
        self.http = self.gateway.http

    def session(self, template):
        """The id of a new session."""
        return self.gateway.session(template)["id"]

    def run(self, session, code, http=None, wait_s=100):
        """The result of an execution."""
        reply = (http or self.http).post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": wait_s})
        assert reply.status_code in (200, 201, 202), reply.text
        return reply.json()

    def says(self, session, code, http=None):
        """What code prints."""
        result = self.run(session, code, http)
        assert result["error"] is None, result["error"]
        return result["text"].strip()

    def records(self, session, enough):
        """The records of calls in a session's log, once there are enough."""
        records = []

        def seen(event):
            if event["event"] == "tool_call":
                records.append(event)
            return enough(records)

        follow(self.gateway, session, 0, seen)
        return [event["detail"] for event in records]

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.model.close()


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("models"), request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world):
    """A session with two models, without a network."""
    made = world.session("models")
    yield made
    world.gateway.end(made)


def test_code_asks_a_model_and_a_map_of_them(world, session):
    code = """
import himalia
print(await himalia.llm("echo hello", system="Be short.", max_tokens=1000))
print(await himalia.llm_map([f"echo {n}" for n in range(50)], parallel=10, model="large") == [str(n) for n in range(50)])
print(himalia.sync.llm("echo blocking"), himalia.sync.llm_map(["echo a", "echo b"]))
print(await himalia.llm("json Oslo", schema={"type": "object"}))
print(await himalia.llm([{"role": "user", "content": "echo of messages"}]))
"""
    before = len(world.model.requests)
    result = world.run(session, code)
    assert result["error"] is None, result["error"]
    assert result["text"].splitlines() == ["hello", "True", "blocking ['a', 'b']", "{'city': 'Oslo'}", "of messages"], result
    first = world.model.requests[before]
    assert (first["model"], first["max_completion_tokens"]) == ("there-small", 100), "the bound is the smaller one"
    assert first["messages"][0] == {"role": "system", "content": "Be short."}
    assert world.model.requests[before + 1]["model"] == "large"
    usage = result["usage"]
    assert (usage["model_calls"], usage["model_calls_failed"], usage["tool_calls"]) == (56, 0, 0), usage
    assert usage["model_output_tokens"] == 56 * 3
    own = [request for request in world.model.requests[before:] if request["model"] == "there-small"]
    tokens = sum(len(request["messages"][-1]["content"]) // 4 for request in own)
    assert usage["model_spend"] == pytest.approx((tokens * 1 + 3 * len(own) * 10) / 1e6), "large has no price"
    of_session = world.http.get(f"v1/sessions/{session}/usage").json()
    assert of_session["model_calls"] >= 56 and of_session["model_spend"] >= usage["model_spend"], of_session


def test_each_call_is_a_record_that_is_cut(world):
    made = world.session("models")
    world.says(made, "import himalia; print(await himalia.llm('echo ' + 'x' * 5000, max_tokens=7))")
    begun, ended = world.records(made, lambda all: len(all) == 2)
    assert (begun["state"], begun["callee"], begun["tool"], begun["caller"]) == ("begun", "model", "small", "code"), begun
    assert len(begun["arguments"]) < 2100 and begun["arguments_bytes"] > 5000, begun
    assert json.loads(begun["arguments"])["output_limit"] == 7, begun
    assert (ended["outcome"], ended["model_use"]["output_tokens"]) == ("done", 3), ended
    assert ended["model_use"]["spend"] == pytest.approx((5005 // 4 + 30) / 1e6), ended
    assert len(ended["reply"]) < 600, ended
    world.gateway.end(made)


def test_records_say_the_line_of_the_cell(world):
    made = world.session("models")
    code = """\
import asyncio, himalia
await asyncio.gather(himalia.llm("echo a"), asyncio.create_task(himalia.llm("echo b")))
await himalia.llm_map(["echo c"])
himalia.sync.llm("echo d")
himalia.sync.llm_map(["echo e"])
"""
    world.says(made, code)
    records = world.records(made, lambda all: len(all) == 10)
    assert sorted(one["line"] for one in records if one["state"] == "begun") == [2, 2, 3, 4, 5], records
    world.gateway.end(made)


def test_the_key_is_in_no_request_of_code_and_in_no_reply(world, session):
    code = f"""
import himalia, os
text = await himalia.llm("who")
print(text, {SECRET[3:12]!r} in str(os.environ))
"""
    assert world.says(session, code) == f"Bearer {'*' * len(SECRET)} False"
    assert world.model.keys[-1] == f"Bearer {SECRET}"


def test_what_is_over_a_cap_is_not_sent(world):
    made = world.session("few")
    code = """
import himalia
answers = await himalia.llm_map([f"echo {n}" for n in range(5)], return_errors=True, parallel=1)
print([getattr(one, "code", one) for one in answers], answers[-1])
"""
    before = len(world.model.requests)
    result = world.run(made, code)
    assert result["text"].startswith("['0', '1', '2', 'model_limit', 'model_limit']"), result
    assert "has called models 3 times, as often as it may (model_calls)" in result["text"], result
    assert len(world.model.requests) == before + 3
    usage = result["usage"]
    assert (usage["model_calls"], usage["model_calls_refused"]) == (5, 2), usage
    # The next execution begins anew.
    assert world.says(made, code).startswith("['0', '1', '2', 'model_limit'")
    world.gateway.end(made)

    made = world.session("cheap")
    code = """
import himalia
for prompt, most in (("echo " + "x" * 4000, 1), ("echo " + "x" * 800, 100)):
    try:
        for n in range(10):
            await himalia.llm(prompt, max_tokens=most)
    except himalia.ModelLimit as error:
        print(n, error)
"""
    lines = world.says(made, code).splitlines()
    assert lines[0].startswith("0 model_tokens: what runs has used 0 of 1000 tokens, and this call may take about 1004"), lines
    spend = next(line for line in lines if "model_spend" in line)
    assert spend.startswith("2 model_spend: what runs has spent 0.000462 of 0.0016, and this call may cost 0.001203"), lines
    world.gateway.end(made)


def test_more_calls_than_at_once_wait(world):
    made = world.session("few")
    code = """
import asyncio, himalia
calls = [asyncio.ensure_future(himalia.llm(f"hold {name}")) for name in ("p0", "p1", "p2")]
print(await asyncio.gather(*calls))
"""
    execution = world.run(made, code, wait_s=0)["id"]
    of_test = lambda: sum(world.model.seen[f"hold {name}"] for name in ("p0", "p1", "p2"))  # noqa: E731
    eventually(lambda: of_test() == 2, "two calls are at the server", 60)
    state = world.http.get(f"v1/sessions/{made}/usage").json()
    assert state["model_calls"] == 2, "the third waits, and is not begun"
    for name in ("p0", "p1", "p2"):
        world.model.release(name)
    result = eventually(lambda: ended(world, execution), "it has ended", 60)
    assert result["error"] is None and of_test() == 3, result
    world.gateway.end(made)


def ended(world, execution):
    """The result of an execution that has ended."""
    result = world.http.get(f"v1/executions/{execution}").json()
    return result if result["status"] not in ("queued", "running") else None


def test_a_session_has_the_models_of_its_tenant_and_template(world, session):
    seen = {}
    code = """
import himalia, json, urllib.request
with urllib.request.urlopen("http://himalia.internal/llm/v1/models") as reply:
    names = [one["id"] for one in json.load(reply)["data"]]
try:
    await himalia.llm("echo x", model="own")
    print(names, "answered")
except himalia.UnknownModel as error:
    print(names, error.status, error)
"""
    for tenant, token in TOKENS.items():
        http = client_with(world.gateway, token)
        made = http.post("v1/sessions", json={"template": "models"}).json()["id"]
        seen[tenant] = world.says(made, code, http)
        assert http.delete(f"v1/sessions/{made}").status_code == 204
    assert seen["acme"] == "['small', 'large', 'own'] answered", seen
    assert seen["other"].startswith("['small', 'large'] 404 this session has no model \"own\"; it has small, large"), seen
    bare = world.session("plain")
    code = "import himalia\ntry: await himalia.llm('echo x')\nexcept himalia.ToolUnavailable as e: print(e)"
    assert "HIMALIA_API is not set" in world.says(bare, code)
    world.gateway.end(bare)


def test_a_run_of_a_skill_has_the_models_that_template_and_manifest_have(world):
    main = """
import himalia, json, urllib.request
def main():
    with urllib.request.urlopen("http://himalia.internal/llm/v1/models") as reply:
        names = [one["id"] for one in json.load(reply)["data"]]
    try:
        himalia.sync.llm("echo x", model="large")
        large = True
    except himalia.UnknownModel:
        large = False
    return {"names": names, "large": large}
"""
    open_type = {"type": "object"}

    def publish(http=world.http, **more):
        manifest = {"version": "1.0.0", "kind": "code", "description": "Asks.", "inputs": open_type, "outputs": open_type, **more}
        return http.post("v1/skills", json={"manifest": manifest, "files": {"main.py": {"text": main}}})

    def outputs(name, template):
        reply = world.http.post(f"v1/skills/{name}/runs", json={"template": template, "wait_s": 100})
        assert reply.json()["status"] == "succeeded", reply.text
        return reply.json()["outputs"]

    for name, models in [("none", []), ("one", ["small"]), ("two", ["large", "small"])]:
        assert publish(name=name, models=models).status_code == 201
    assert outputs("none", "models") == {"names": [], "large": False}
    assert outputs("one", "models") == {"names": ["small"], "large": False}
    assert outputs("two", "models") == {"names": ["small", "large"], "large": True}
    assert outputs("two", "few") == {"names": ["small"], "large": False}
    other = client_with(world.gateway, TOKENS["other"])
    for http, wrong in [
        (world.http, {"models": ["nobodys"]}),
        (world.http, {"models": ["small", "small"]}),
        (other, {"models": ["own"]}),
        (world.http, {"models": ["large"], "template": "few"}),
    ]:
        reply = publish(http, name="wrong", **wrong)
        assert (reply.status_code, reply.json().get("field")) == (400, "models"), reply.text
    mine = client_with(world.gateway, TOKENS["acme"])
    assert publish(mine, name="right", models=["own"], template="models").status_code == 201


def test_the_same_question_is_asked_once(world, session):
    code = """
import himalia
for options in ({"temperature": 0}, {"temperature": 0}, {"cache": True}, {"cache": True}, {"temperature": 0, "cache": False}, {}):
    print(await himalia.llm("count", **options))
"""
    result = world.run(session, code)
    counts = [int(line) for line in result["text"].split()]
    first = counts[0]
    assert counts == [first, first, first + 1, first + 1, first + 2, first + 3], counts
    usage = result["usage"]
    assert (usage["model_calls"], usage["model_calls_cached"], usage["model_output_tokens"]) == (6, 2, 4 * 3), usage
    # That of another tenant is not found.
    http = client_with(world.gateway, TOKENS["other"])
    made = http.post("v1/sessions", json={"template": "models"}).json()["id"]
    text = world.says(made, "import himalia; print(await himalia.llm('count', temperature=0))", http)
    assert int(text) == first + 4
    assert http.delete(f"v1/sessions/{made}").status_code == 204


def test_errors_of_a_server_pass_and_a_busy_one_is_asked_again(world, session):
    code = """
import himalia, json, urllib.error, urllib.request
body = json.dumps({"model": "large", "messages": [{"role": "user", "content": "busy 1"}]}).encode()
request = urllib.request.Request("http://himalia.internal/llm/v1/chat/completions", body)
try:
    urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    print(error.code, error.headers["retry-after"], error.headers["x-secret"], json.load(error)["error"]["message"])
print(await himalia.llm("busy 2"))
for prompt in ("broken", "drop"):
    try:
        await himalia.llm(prompt, model="large")
    except himalia.ModelError as error:
        print(error.code, error.status)
"""
    lines = world.says(session, code).splitlines()
    assert lines == ["429 0 None slow down", "busy", "model_failed 502", "outcome_unknown 504"], lines


def test_a_stream_comes_as_it_is_written(world, session):
    code = """
import json, urllib.request
body = json.dumps({"model": "small", "stream": True, "messages": [{"role": "user", "content": "hold stream"}]}).encode()
with urllib.request.urlopen(urllib.request.Request("http://himalia.internal/llm/v1/chat/completions", body)) as reply:
    print(reply.headers["content-type"])
    for line in reply:
        if line.strip():
            print(line.decode().strip())
"""
    execution = world.run(session, code, wait_s=0)["id"]
    shows = lambda word: word in world.http.get(f"v1/executions/{execution}").json()["text"]  # noqa: E731
    eventually(lambda: shows("one "), "the first word is there", 60)
    assert not shows("two")
    world.model.release("stream")
    result = eventually(lambda: ended(world, execution), "it has ended", 60)
    lines = result["text"].splitlines()
    assert lines[0] == "text/event-stream" and lines[-1] == "data: [DONE]" and len(lines) == 4, lines
    assert world.model.requests[-1]["stream_options"] == {"include_usage": True}
    usage = result["usage"]
    assert (usage["model_input_tokens"], usage["model_output_tokens"]) == (5, 2), usage


def test_embeddings_pass(world, session):
    code = """
import json, urllib.request
body = json.dumps({"model": "small", "input": ["a", "bcd"]}).encode()
with urllib.request.urlopen(urllib.request.Request("http://himalia.internal/llm/v1/embeddings", body)) as reply:
    print([one["embedding"] for one in json.load(reply)["data"]])
"""
    result = world.run(session, code)
    assert result["text"].strip() == "[[1, 0.5], [3, 0.5]]", result
    assert (result["usage"]["model_input_tokens"], result["usage"]["model_output_tokens"]) == (2, 0)


def test_a_call_that_a_killed_gateway_has_begun_is_unknown(world):
    made = world.session("models")
    code = """
import himalia
try:
    print(await himalia.llm("hold killed"))
except himalia.OutcomeUnknown as error:
    print("unknown:", error.code)
"""
    execution = world.run(made, code, wait_s=0)["id"]
    asked = lambda: world.model.seen["hold killed"]  # noqa: E731
    eventually(lambda: asked() == 1, "the server has the call", 60)
    world.gateway.process.kill()
    world.gateway.process.wait()
    world.gateway.start()
    world.http = world.gateway.http
    result = eventually(lambda: ended(world, execution), "the execution has ended", 60)
    assert result["text"].strip() == "unknown: outcome_unknown", result
    assert (result["usage"]["model_calls"], result["usage"]["model_calls_unknown"]) == (1, 1), result["usage"]
    assert asked() == 1
    world.model.release("killed")
    world.gateway.end(made)


def test_a_question_over_ten_megabytes_is_solved_by_recursion(world, tmp_path):
    chance, lost, lines = random.Random(7), {}, []
    while len(lines) < 190_000:
        number, where = len(lines), chance.choice(["Bergen", "Oslo", "Tromso"])
        what = "lost" if chance.random() < 0.012 else "delivered"
        lines.append(f"parcel {number:06}, {where}, on a {chance.choice(['quiet', 'stormy'])} day: it was {what}")
        if what == "lost":
            lost.setdefault(where, []).append(number)
    file = tmp_path / "parcels.txt"
    file.write_text("\n".join(lines))
    assert file.stat().st_size > 10_000_000
    before = len(world.model.requests)
    example = Path(__file__).parents[3] / "examples" / "recursion.py"
    question = "How many parcels were lost, and where most of them?"
    command = [sys.executable, "-I", "-S", example, world.gateway.url, world.gateway.token, "models", file, question, "12000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    most = max(lost, key=lambda where: len(lost[where]))
    total = sum(map(len, lost.values()))
    assert f"{total} were lost, most of them in {most} ({len(lost[most])})." in done.stdout, done.stdout
    asked = world.model.requests[before:]
    assert len(asked) > 800 and max(len(json.dumps(one)) for one in asked) < 20_000, "no question has all of the text"
    assert "depth 0: " in done.stdout and "depth 1: " in done.stdout, done.stdout
    assert f"{len(asked)} calls of models" in done.stdout, done.stdout
