"""Workflows on a gateway with real kernels: published, checked, run, answered, cancelled, and continued with after kills of the gateway."""

import json
import subprocess
import threading
import time

import pytest
from agents import agent, run, text, whole
from mcp.types import ElicitResult
from replicas import Replicas
from servers import Himalia, client_with
from terminal import command
from waiting import eventually

OPEN = {"type": "object"}
# Each skill appends a line to the file of its inputs when it begins, so that what ran is known.
SKILLS = {
    "fetch": (
        """
def main(month, log=None):
    if log:
        open(log, "a").write("fetch\\n")
    return {"rows": [{"id": n} for n in range(4)], "month": month}
""",
        {
            "type": "object",
            "properties": {"month": {"type": "string"}, "log": {"type": "string"}},
            "required": ["month"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"rows": {"type": "array", "items": {"type": "object"}}, "month": {"type": "string"}},
            "required": ["rows"],
        },
    ),
    "double": (
        """
import os, time
def main(id, log=None, wait=None, fail=None):
    if log:
        with open(log, "a") as file:
            file.write(f"double {id}\\n")
    if fail and not os.path.exists(fail):
        open(fail, "w").close()
        raise ValueError("not yet")
    while wait and not os.path.exists(wait):
        time.sleep(0.02)
    return {"twice": 2 * id}
""",
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "log": {"type": "string"}, "wait": {"type": "string"}, "fail": {"type": "string"}},
            "required": ["id"],
            "additionalProperties": False,
        },
        {"type": "object", "properties": {"twice": {"type": "integer"}}, "required": ["twice"]},
    ),
    "add": (
        """
def main(all, more=0, log=None):
    if log:
        open(log, "a").write("add\\n")
    if more == -1:
        raise ValueError("negative")
    return {"total": sum(one["twice"] for one in all) + more}
""",
        {
            "type": "object",
            "properties": {"all": {"type": "array"}, "more": {"type": "integer"}, "log": {"type": "string"}},
            "required": ["all"],
        },
        {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]},
    ),
}
SKILLS["stubborn"] = (
    """
import time
def main(month, log=None):
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try: time.sleep(1)
        except BaseException: pass
""",
    SKILLS["fetch"][1],
    SKILLS["fetch"][2],
)
MONTH = {"type": "object", "properties": {"month": {"type": "string"}, "log": {"type": "string"}}, "required": ["month"]}


def publish_skills(http):
    """The skills of this file."""
    for name, (code, inputs, outputs) in SKILLS.items():
        manifest = {
            "name": name,
            "version": "1.0.0",
            "kind": "code",
            "description": "For workflows.",
            "inputs": inputs,
            "outputs": outputs,
        }
        reply = http.post("v1/skills", json={"manifest": manifest, "files": {"main.py": {"text": code}}})
        assert reply.status_code in (200, 201), reply.text


def log_of(given):
    return {"log": {"from": "inputs.log"}, **given}


def step(name, skill=None, after=None, **more):
    """A step; what its inputs do not have is left out at run time."""
    made = {"id": name, "skill": {"name": skill or name}, **more}
    return {**made, "after": after} if after else made


STEPS = [
    step("fetch", inputs=log_of({"month": {"from": "inputs.month"}})),
    step(
        "double",
        map={"over": {"from": "steps.fetch.outputs.rows"}, "parallel": 2},
        inputs=log_of({"id": {"from": "item.id"}}),
    ),
    step("other", "double", inputs=log_of({"id": {"value": 50}})),
    step(
        "add",
        inputs=log_of({"all": {"from": "steps.double.outputs"}, "more": {"from": "steps.other.outputs.twice"}}),
    ),
]
OUTPUTS = {"total": {"from": "steps.add.outputs.total"}, "month": {"from": "steps.fetch.outputs.month"}}


def definition(**changes):
    plain = {
        "name": "monthly",
        "version": "1.0.0",
        "description": "Adds a month up.",
        "inputs": MONTH,
        "steps": STEPS,
        "outputs": OUTPUTS,
    }
    return {**plain, **changes}


def publish(http, **changes):
    return http.post("v1/workflows", json={"definition": definition(**changes)})


def start(http, inputs, name="monthly", **more):
    reply = http.post(f"v1/workflows/{name}/runs", json={"inputs": inputs, **more}, timeout=120)
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def shown(http, run, **query):
    reply = http.get(f"v1/runs/{run['id']}", params=query, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def ended(http, run):
    return eventually(
        lambda: (now := shown(http, run, wait_s=30))["status"] != "running" and now, lambda: f"{shown(http, run)}", 120
    )


def step_of(run, name):
    return next(one for one in run["steps"] if one["id"] == name)


def answer(http, run, name, value):
    return http.post(f"v1/runs/{run['id']}/steps/{name}/answer", json={"value": value})


@pytest.fixture
def skilled(shared):
    """The shared gateway with these skills and a workflow."""
    publish_skills(shared.http)
    assert publish(shared.http).status_code == 201
    yield shared
    for one in shared.http.get("v1/workflows").json()["workflows"]:
        assert shared.http.delete(f"v1/workflows/{one['name']}").status_code == 204
    for name in SKILLS:
        assert shared.http.delete(f"v1/skills/{name}").status_code == 204


@pytest.fixture
def own(tmp_path, kernel_python):
    """A gateway that is killed."""
    gateway = Himalia(tmp_path / "gateway")
    publish_skills(gateway.http)
    yield gateway
    gateway.stop()


def test_steps_run_as_skills_and_their_outputs_flow(skilled, tmp_path):
    log = tmp_path / "log"
    run = start(skilled.http, {"month": "2026-10", "log": str(log)}, wait_s=100)
    assert (run["status"], run["outputs"]) == ("succeeded", {"total": 112, "month": "2026-10"}), run
    assert [one["status"] for one in run["steps"]] == ["succeeded"] * 4
    assert step_of(run, "double")["outputs"] == [{"twice": 2 * n} for n in range(4)]
    assert step_of(run, "add")["inputs"] == {"all": [{"twice": 2 * n} for n in range(4)], "more": 100, "log": str(log)}
    assert sorted(log.read_text().split("\n")) == ["", "add", "double 0", "double 1", "double 2", "double 3", "double 50", "fetch"]
    # Each is a run of a skill in a session of its own, which has ended.
    (attempt,) = step_of(run, "add")["attempts"]
    assert (attempt["status"], attempt["attempt"]) == ("succeeded", 1)
    of_step = skilled.http.get(f"v1/runs/{attempt['run']}").json()
    assert (of_step["outputs"], of_step["origin"]) == ({"total": 112}, {"kind": "step", "id": run["id"]})
    assert (of_step["execution"], of_step["session"]) == (attempt["execution"], attempt["session"])
    session = skilled.http.get(f"v1/sessions/{attempt['session']}").json()
    assert session["labels"]["himalia.workflow_run"] == run["id"]
    one = skilled.http.get(f"v1/runs/{run['id']}/steps/double", params={"item": 2}).json()
    assert (one["inputs"]["id"], one["outputs"], one["items"], len(one["attempts"])) == (2, {"twice": 4}, 4, 4)
    listed = skilled.http.get("v1/runs", params={"workflow": "monthly", "limit": 1}).json()
    assert listed["runs"][0]["id"] == run["id"]


def test_a_definition_is_pinned_and_checked(skilled):
    published = skilled.http.get("v1/workflows/monthly").json()
    skill = published["definition"]["steps"][0]["skill"]
    assert skill["version"] == "1.0.0" and skill["digest"].startswith("sha256:")
    again = publish(skilled.http)
    assert (again.status_code, again.json()["digest"]) == (200, published["digest"])
    assert publish(skilled.http, description="Other.").status_code == 409
    assert publish(skilled.http, version="1.1.0", description="Other.").status_code == 201
    (listed,) = skilled.http.get("v1/workflows").json()["workflows"]
    assert listed["versions"] == ["1.1.0", "1.0.0"]

    def wrong(field, text, **changes):
        reply = publish(skilled.http, version="2.0.0", **changes)
        assert (reply.status_code, reply.json().get("field")) == (400, field), reply.text
        assert text in reply.json()["detail"], reply.text

    def with_step(name, **changes):
        return {"steps": [{**one, **changes} if one["id"] == name else one for one in STEPS]}

    wrong("steps", "cycle", **with_step("fetch", after=["add"]))
    wrong("steps", "no such skill", **with_step("fetch", skill={"name": "nothing"}))
    wrong("steps", "no version is ^2", **with_step("fetch", skill={"name": "fetch", "version": "^2"}))
    wrong("steps", "other.inputs.id: inputs.month: string where integer", **with_step("other", inputs={"id": {"from": "inputs.month"}}))
    wrong("steps", "other.inputs.id: is required", **with_step("other", inputs={}))
    wrong("steps", "has no row", **with_step("double", map={"over": {"from": "steps.fetch.outputs.row"}}))
    wrong("outputs", "has no sum", outputs={"total": {"from": "steps.add.outputs.sum"}})
    refused = skilled.http.post("v1/workflows/monthly/runs", json={"inputs": {}})
    assert (refused.status_code, refused.json()["field"]) == (400, "inputs")
    unknown = skilled.http.get("v1/runs/run_1")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "run_not_found")


def test_a_key_is_one_run_and_a_cancelled_run_ends_its_sessions(skilled, tmp_path):
    never = str(tmp_path / "never")
    steps = [step("wait", "double", inputs={"id": {"value": 1}, "wait": {"value": never}}), step("then", "double", after=["wait"], inputs={"id": {"value": 1}})]
    assert publish(skilled.http, name="waits", inputs=OPEN, steps=steps, outputs={}).status_code == 201
    run = start(skilled.http, {}, "waits", idempotency_key="k")
    assert start(skilled.http, {}, "waits", idempotency_key="k")["id"] == run["id"]
    other = skilled.http.post("v1/workflows/waits/runs", json={"inputs": {"x": 1}, "idempotency_key": "k"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    attempt = eventually(lambda: (a := step_of(shown(skilled.http, run), "wait")["attempts"]) and a[0]["execution"] and a[0], "it runs", 60)
    cancelled = skilled.http.post(f"v1/runs/{run['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["cancelled_by"]) == (200, "operator")
    done = ended(skilled.http, run)
    assert (done["status"], step_of(done, "wait")["status"], step_of(done, "then")["status"]) == ("cancelled", "cancelled", "skipped")
    eventually(lambda: skilled.http.get(f"v1/sessions/{attempt['session']}").json()["ended"] is not None, "its session ends")


def test_a_step_is_tried_again_only_where_it_says_so(skilled, tmp_path):
    log = tmp_path / "log"

    def once(name, **more):
        steps = [step("try", "double", inputs={"id": {"value": 3}, "log": {"value": str(log)}, "fail": {"value": str(tmp_path / name)}}, **more)]
        outputs = {"twice": {"from": "steps.try.outputs.twice"}}
        assert publish(skilled.http, name=name, inputs=OPEN, steps=steps, outputs=outputs).status_code == 201
        return start(skilled.http, {}, name, wait_s=100)

    failed = once("never")
    assert (failed["status"], failed["error"]) == ("failed", {"code": "error", "message": "ValueError: not yet", "step": "try"})
    assert log.read_text() == "double 3\n"
    done = once("again", retries={"limit": 2, "wait_s": 1})
    assert (done["status"], done["outputs"]) == ("succeeded", {"twice": 6})
    attempts = step_of(done, "try")["attempts"]
    assert [(one["attempt"], one["status"]) for one in attempts] == [(1, "failed"), (2, "succeeded")]
    assert attempts[0]["session"] != attempts[1]["session"]
    assert log.read_text() == "double 3\n" * 3


def test_a_step_that_ignores_interrupts_is_ended(skilled):
    steps = [step("stay", "stubborn", inputs={"month": {"value": "x"}}, timeout_s=1), step("then", "double", after=["stay"], inputs={"id": {"value": 1}})]
    assert publish(skilled.http, name="stays", inputs=OPEN, steps=steps, outputs={}).status_code == 201
    run = start(skilled.http, {}, "stays", wait_s=100)
    assert (run["status"], run["error"]["code"], run["error"]["step"]) == ("failed", "timeout", "stay"), run
    assert "ignored interrupts" in run["error"]["message"]
    assert [one["status"] for one in run["steps"]] == ["failed", "skipped"]


APPROVAL = [
    step("fetch", inputs={"month": {"from": "inputs.month"}}),
    {"id": "sign", "approval": {"text": "Is it good?"}, "inputs": {"rows": {"from": "steps.fetch.outputs.rows"}}},
    step("then", "double", after=["sign"], inputs={"id": {"value": 1}}),
]


def waiting(http, run):
    return eventually(lambda: step_of(shown(http, run), "sign")["status"] == "waiting", lambda: f"{shown(http, run)}", 60)


def test_an_approval_is_answered_once_and_a_rejection_ends_the_run(skilled):
    outputs = {"by": {"from": "steps.sign.outputs.by"}}
    assert publish(skilled.http, name="signed", steps=APPROVAL, outputs=outputs).status_code == 201
    run = start(skilled.http, {"month": "x"}, "signed")
    early = answer(skilled.http, run, "then", "approve")
    assert early.status_code == 409, early.text
    waiting(skilled.http, run)
    asked = step_of(shown(skilled.http, run), "sign")
    assert (asked["approval"]["options"], len(asked["inputs"]["rows"])) == (["approve", "reject"], 4)
    bad = answer(skilled.http, run, "sign", "perhaps")
    assert (bad.status_code, bad.json()["field"]) == (400, "value")
    # The token that runs code does not approve what it does.
    made = skilled.http.post("v1/tokens", json={"caller": "ci", "scope": "execute"}).json()
    with client_with(skilled, made["token"]) as ci:
        assert answer(ci, run, "sign", "approve").status_code == 403
    assert skilled.http.delete(f"v1/tokens/{made['id']}").status_code == 200
    replies = []
    both = [threading.Thread(target=lambda v=value: replies.append(answer(skilled.http, run, "sign", v))) for value in ["approve", "approve"]]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(reply.status_code for reply in replies) == [200, 409]
    done = ended(skilled.http, run)
    assert (done["status"], done["outputs"]) == ("succeeded", {"by": "operator"}), done
    run = start(skilled.http, {"month": "x"}, "signed")
    waiting(skilled.http, run)
    assert answer(skilled.http, run, "sign", "reject").status_code == 200
    done = ended(skilled.http, run)
    assert (done["status"], done["error"]["code"], step_of(done, "then")["status"]) == ("failed", "rejected", "skipped")


def open_steps(http):
    return [one for one in http.get("v1/prompts").json()["prompts"] if one["kind"] == "step"]


def test_a_step_that_waits_is_a_prompt_among_the_others(own):
    outputs = {"by": {"from": "steps.sign.outputs.by"}}
    assert publish(own.http, steps=APPROVAL, outputs=outputs).status_code == 201
    run = start(own.http, {"month": "x"})
    [prompt] = eventually(lambda: open_steps(own.http), "the step waits", 100)
    path = f"v1/prompts/{prompt['id']}"
    assert (prompt["run"], prompt["step"], prompt["text"]) == (run["id"], "sign", "Is it good?")
    assert prompt["options"] == ["approve", "reject"] and len(prompt["arguments"]["rows"]) == 4
    assert "session" not in prompt and own.http.get(path).json() == prompt
    made = own.http.post("v1/tokens", json={"caller": "ci", "scope": "execute"}).json()
    with client_with(own, made["token"]) as ci:
        assert ci.post(f"{path}/answer", json={"value": "approve"}).status_code == 403
    own.kill()
    own.start()
    assert [one["id"] for one in open_steps(own.http)] == [prompt["id"]]
    bad = own.http.post(f"{path}/answer", json={"value": "perhaps"})
    assert (bad.status_code, bad.json()["field"]) == (400, "value")
    replies = []
    post = lambda: replies.append(own.http.post(f"{path}/answer", json={"value": "approve"}))  # noqa: E731
    both = [threading.Thread(target=post) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(reply.status_code for reply in replies) == [200, 409]
    answered = next(reply.json() for reply in replies if reply.status_code == 200)
    assert (answered["state"], answered["answer"], answered["answered_by"]) == ("answered", "approve", "operator")
    assert ended(own.http, run)["status"] == "succeeded" and open_steps(own.http) == []
    assert own.http.get(path).json()["answer"] == "approve"
    unknown = own.http.get(f"{path}x")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "prompt_not_found")


def test_a_run_goes_on_after_a_kill_and_nothing_that_finished_runs_twice(own, tmp_path):
    log, go = tmp_path / "log", tmp_path / "go"
    steps = [
        step("fetch", inputs={"month": {"value": "x"}, "log": {"value": str(log)}}),
        step(
            "double",
            map={"over": {"from": "steps.fetch.outputs.rows"}, "parallel": 2},
            inputs={"id": {"from": "item.id"}, "log": {"value": str(log)}, "wait": {"value": str(go)}},
        ),
        step("add", inputs={"all": {"from": "steps.double.outputs"}, "log": {"value": str(log)}}),
    ]
    outputs = {"total": {"from": "steps.add.outputs.total"}}
    assert publish(own.http, inputs=OPEN, steps=steps, outputs=outputs).status_code == 201
    run = start(own.http, {})

    def running():
        attempts = own.http.get(f"v1/runs/{run['id']}/steps/double").json()["attempts"]
        return {one["item"]: one["execution"] for one in attempts if one["status"] == "running" and one["execution"]}

    before = eventually(lambda: len(found := running()) == 2 and found, "two items run", 100)
    eventually(lambda: log.read_text().count("double") == 2, "both have begun")
    own.kill()
    own.start()
    # They run on in their sandboxes, and are found again.
    assert eventually(lambda: running() == before, lambda: f"{before} {running()}", 60)
    go.touch()
    done = ended(own.http, run)
    assert (done["status"], done["outputs"]) == ("succeeded", {"total": 12}), done
    assert sorted(log.read_text().split()) == sorted(["fetch", "add", *["double", "0"], *["double", "1"], *["double", "2"], *["double", "3"]])


def test_what_ends_while_no_gateway_is_there_is_not_run_again(own, tmp_path):
    log, go = tmp_path / "log", tmp_path / "go"
    inputs = {"id": {"value": 5}, "log": {"value": str(log)}, "wait": {"value": str(go)}}
    steps = [step("double", inputs=inputs, retries={"limit": 3})]
    outputs = {"twice": {"from": "steps.double.outputs.twice"}}
    assert publish(own.http, inputs=OPEN, steps=steps, outputs=outputs).status_code == 201
    run = start(own.http, {}, idempotency_key="once")
    eventually(lambda: log.exists() and log.read_text() == "double 5\n", "it runs", 60)
    own.kill()
    go.touch()
    own.start()
    done = ended(own.http, run)
    assert (done["status"], done["outputs"]) == ("succeeded", {"twice": 10}), done
    assert log.read_text() == "double 5\n"
    assert start(own.http, {}, idempotency_key="once")["id"] == run["id"]


def test_kills_at_any_moment_run_each_step_once(own, tmp_path):
    log = tmp_path / "log"
    ids = range(6)
    steps = [
        step("double", map={"over": {"value": [{"id": n} for n in ids]}, "parallel": 2}, inputs={"id": {"from": "item.id"}, "log": {"value": str(log)}}),
        step("add", inputs={"all": {"from": "steps.double.outputs"}, "log": {"value": str(log)}}),
    ]
    outputs = {"total": {"from": "steps.add.outputs.total"}}
    assert publish(own.http, inputs=OPEN, steps=steps, outputs=outputs).status_code == 201
    run = start(own.http, {})
    kills = 0
    for lines in range(1, 6):
        eventually(lambda n=lines: log.exists() and log.read_text().count("\n") >= n, lambda: f"{shown(own.http, run)}", 100)
        # The moment differs with each time.
        time.sleep(0.05 * lines)
        own.kill()
        own.start()
        kills += 1
    done = ended(own.http, run)
    assert (done["status"], done["outputs"], kills) == ("succeeded", {"total": 30}, 5), done
    assert sorted(log.read_text().split("\n")) == ["", "add", *[f"double {n}" for n in ids]]


def test_an_approval_waits_across_a_kill_and_an_answer_is_kept(own):
    outputs = {"by": {"from": "steps.sign.outputs.by"}}
    assert publish(own.http, steps=APPROVAL, outputs=outputs).status_code == 201
    run = start(own.http, {"month": "x"})
    waiting(own.http, run)
    own.kill()
    own.start()
    waiting(own.http, run)
    assert answer(own.http, run, "sign", "approve").status_code == 200
    own.kill()
    own.start()
    assert answer(own.http, run, "sign", "reject").status_code == 409
    done = ended(own.http, run)
    assert (done["status"], done["outputs"]) == ("succeeded", {"by": "operator"}), done


def test_a_tenant_sees_nothing_of_anothers_workflows(tmp_path, kernel_python):
    tenants = {"acme": "the-token-of-acme-for-tests", "other": "the-token-of-other-for-tests"}
    config = tmp_path / "himalia.toml"
    config.write_text("".join(f'[tenants.{name}]\ntokens = {{ x = "{token}" }}\n' for name, token in tenants.items()))
    gateway = Himalia(tmp_path / "gateway", "--config", str(config))
    try:
        with client_with(gateway, tenants["acme"]) as ada, client_with(gateway, tenants["other"]) as eve:
            publish_skills(ada)
            assert publish(ada).status_code == 201
            run = start(ada, {"month": "x"}, wait_s=100)
            assert (run["status"], run["started_by"]) == ("succeeded", "acme/x")
            session = ada.get(f"v1/sessions/{step_of(run, 'add')['attempts'][0]['session']}").json()
            assert session["owner"] == "acme"
            assert eve.get("v1/workflows").json()["workflows"] == eve.get("v1/runs").json()["runs"] == []
            path = f"v1/runs/{run['id']}"
            for reply in [
                eve.get("v1/workflows/monthly"),
                eve.delete("v1/workflows/monthly"),
                eve.post("v1/workflows/monthly/runs", json={}),
                eve.get(path),
                eve.get(f"{path}/steps/add"),
                eve.post(f"{path}/cancel"),
            ]:
                assert reply.status_code == 404, reply.text
            by = {"by": {"from": "steps.sign.outputs.by"}}
            assert publish(ada, name="signed", steps=APPROVAL, outputs=by).status_code == 201
            start(ada, {"month": "x"}, "signed")
            [prompt] = eventually(lambda: open_steps(ada), "the step waits", 100)
            assert open_steps(gateway.http) == [prompt]
            assert open_steps(eve) == []
            for reply in [
                eve.get(f"v1/prompts/{prompt['id']}"),
                eve.post(f"v1/prompts/{prompt['id']}/answer", json={"value": "approve"}),
            ]:
                assert (reply.status_code, reply.json()["code"]) == (404, "prompt_not_found"), reply.text
            # Its own skills are those that a workflow finds.
            assert "no such skill" in publish(eve).json()["detail"]
    finally:
        gateway.stop()


def test_a_step_whose_outputs_have_no_room_fails_and_its_execution_has_them(tmp_path, kernel_python):
    chars, token = 900_000, "the-token-of-acme-for-tests"
    config = tmp_path / "himalia.toml"
    # Its session has room, and a log with the outputs; the outputs in the database have none.
    config.write_text(f'[tenants.acme]\ntokens = {{ x = "{token}" }}\ndisk = "1536KiB"\n')
    manifest = {"name": "long", "version": "1.0.0", "kind": "code", "description": "d", "inputs": OPEN, "outputs": OPEN}
    main = "def main(chars, log):\n    open(log, 'a').write('long\\n')\n    return {'text': 'x' * chars}\n"
    log = tmp_path / "log"
    given = {"log": {"value": str(log)}}
    steps = [
        step("long", inputs={"chars": {"value": chars}, **given}, retries={"limit": 2}),
        step("next", "long", ["long"], inputs={"chars": {"value": 1}, **given}),
    ]
    gateway = Himalia(tmp_path / "gateway", "--config", str(config))
    try:
        with client_with(gateway, token) as http:
            assert http.post("v1/skills", json={"manifest": manifest, "files": {"main.py": {"text": main}}}).status_code == 201
            assert publish(http, inputs=OPEN, steps=steps, outputs={}).status_code == 201
            run = ended(http, start(http, {}))
            assert (run["status"], run["error"]["code"], run["error"]["step"]) == ("failed", "over_budget", "long"), run
            [attempt] = step_of(run, "long")["attempts"]
            assert (attempt["status"], attempt["error"]["code"]) == ("failed", "over_budget"), attempt
            assert step_of(run, "next")["attempts"] == [] and log.read_text() == "long\n"
            eventually(lambda: http.get(f"v1/sessions/{attempt['session']}").json()["ended"], "its session ends")
            kept = http.get(f"v1/runs/{attempt['run']}").json()
            assert (kept["status"], len(kept["outputs"]["text"])) == ("succeeded", chars), kept["status"]
    finally:
        gateway.stop()


def cli(gateway, *arguments, code=0, noun="workflow"):
    """A command of the client: what it prints."""
    done = subprocess.run(command(gateway, noun, *arguments), capture_output=True, text=True, timeout=100)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_the_client_publishes_runs_and_answers(skilled, tmp_path):
    file = tmp_path / "signed.json"
    outputs = {"by": {"from": "steps.sign.outputs.by"}}
    file.write_text(json.dumps(definition(name="signed", steps=APPROVAL, outputs=outputs)))
    assert "signed 1.0.0 published: sha256:" in cli(skilled, "publish", str(file))
    assert "was there already" in cli(skilled, "publish", str(file))
    assert "signed" in cli(skilled, "ls") and '"approval"' in cli(skilled, "show", "signed")
    done = subprocess.run(command(skilled, "workflow", "run", "monthly", "--input", "month=x"), capture_output=True, text=True, timeout=100)
    assert json.loads(done.stdout) == {"total": 112, "month": "x"}, done.stderr
    assert "month" in cli(skilled, "run", "signed", code=1)
    cli(skilled, "run", "signed", "--input", "month=x", "--key", "signed-once", "--detach")
    run = skilled.http.get("v1/runs", params={"workflow": "signed"}).json()["runs"][0]
    waiting(skilled.http, run)
    assert "asks: approve, reject" in cli(skilled, "show", run["id"], noun="run")
    assert "sign" in cli(skilled, "answer", run["id"], "sign", "reject", noun="run")
    assert "sign: rejected: operator has answered" in cli(skilled, "run", "signed", "--input", "month=x", "--key", "signed-once", code=1)
    assert run["id"] in cli(skilled, "list", "--workflow", "signed", noun="run") and "failed" in cli(skilled, "cancel", run["id"], noun="run")
    assert cli(skilled, "events", run["id"], noun="run") == "failed  fetch succeeded, sign failed, then skipped\n"
    assert cli(skilled, "deliveries", run["id"], noun="run") == "no deliveries\n"
    begin = command(skilled, "workflow", "run", "signed", "--input", "month=x")
    with subprocess.Popen(begin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follows:
        new = follows.stderr.readline().strip()
        assert follows.stderr.readline() == f"sign waits for an answer: himalia run answer {new} sign VALUE\n"
        cli(skilled, "answer", new, "sign", "approve", noun="run")
        assert json.loads(follows.communicate(timeout=100)[0]) == {"by": "operator"}
    cli(skilled, "rm", "signed")
    assert "signed" not in cli(skilled, "ls")


SIGN = [{"id": "sign", "approval": {"text": "Pay these?", "options": ["pay", "stop"]}, "inputs": {"month": {"from": "inputs.month"}}}]


@pytest.fixture
def signed(skilled):
    """The gateway with a workflow `signed` of one approval."""
    outputs = {"answer": {"from": "steps.sign.outputs.answer"}}
    made = definition(name="signed", steps=SIGN, outputs=outputs)
    assert skilled.http.post("v1/workflows", json={"definition": made}).status_code == 201
    return skilled


START = {"op": "run", "name": "signed", "inputs": {"month": "2026-10"}, "wait_s": 60}


def runs_of(http):
    return http.get("v1/runs", params={"workflow": "signed"}).json()["runs"]


def test_a_client_of_mcp_asks_its_user_for_an_approval(signed):
    before = len(runs_of(signed.http))
    asked, answers = [], ["pay", None, "pay"]

    async def user(_, parameters):
        asked.append((parameters.message, parameters.requested_schema["properties"]["value"]["enum"]))
        value = answers[len(asked) - 1]
        return ElicitResult(action="accept", content={"value": value}) if value else ElicitResult(action="decline")

    async def works():
        async with agent(signed, elicitation_callback=user) as client:
            done = await client.call_tool("workflow", START)
            assert not done.is_error and json.loads(text(done)) == {"answer": "pay"}, text(done)
            # Who declines decides nothing: the run waits for who decides, and is asked for again by who waits for it.
            waits = await client.call_tool("workflow", START)
            assert not waits.is_error and whole(waits)["status"] == "running"
            [prompt] = whole(waits)["prompts"]
            assert (prompt["step"], prompt["options"]) == ("sign", ["pay", "stop"]) and prompt["id"] in text(waits)
            again = {"op": "look", "run": whole(waits)["run"]}
            plain = await client.call_tool("workflow", again)
            assert whole(plain)["status"] == "running" and len(asked) == 2
            done = await client.call_tool("workflow", {**again, "wait_s": 60})
            assert json.loads(text(done)) == {"answer": "pay"}

    run(works)
    message = 'The workflow signed 1.0.0 asks at its step sign: Pay these?\nArguments: {"month":"2026-10"}'
    assert asked == [(message, ["pay", "stop"])] * 3
    # The second round of a call starts no second run.
    assert len(runs_of(signed.http)) == before + 2


def test_an_answer_of_another_person_comes_before_that_of_the_user(signed):
    async def user(_, _parameters):
        [prompt] = open_steps(signed.http)
        assert signed.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": "pay"}).status_code == 200
        return ElicitResult(action="accept", content={"value": "stop"})

    async def works():
        async with agent(signed, elicitation_callback=user) as client:
            done = await client.call_tool("workflow", START)
            assert not done.is_error and whole(done)["outputs"] == {"answer": "pay"}
            assert "[the answer was not accepted: the step sign does not wait for an answer" in text(done)

    run(works)


@pytest.mark.parametrize("scope", ["admin", "execute"])
def test_a_client_that_cannot_ask_learns_how_to_answer(signed, scope):
    """A client without elicitation, and one whose token may not approve."""

    async def user(_, parameters):
        raise AssertionError(parameters.message)

    made = signed.http.post("v1/tokens", json={"caller": "ci", "scope": scope}).json()

    async def works():
        more = {"elicitation_callback": user} if scope == "execute" else {}
        async with agent(signed, token=made["token"], **more) as client:
            waits = await client.call_tool("workflow", START)
            assert not waits.is_error and whole(waits)["steps"] == {"sign": "waiting"}
            [prompt] = whole(waits)["prompts"]
            assert f"[sign waits for a person: `himalia prompts answer {prompt['id']}`" in text(waits), text(waits)
            look = {"op": "look", "run": whole(waits)["run"]}
            # Who cannot answer waits for who can, and does not ask in a loop.
            begun = time.monotonic()
            waits = await client.call_tool("workflow", {**look, "wait_s": 1})
            assert whole(waits)["status"] == "running" and time.monotonic() - begun >= 1
            assert signed.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": "pay"}).status_code == 200
            done = await client.call_tool("workflow", {**look, "wait_s": 60})
            assert json.loads(text(done)) == {"answer": "pay"}, text(done)

    run(works)
    assert signed.http.delete(f"v1/tokens/{made['id']}").status_code == 200


def test_another_replica_goes_on_with_a_run(tmp_path, postgres, kernel_python):
    log, go = tmp_path / "log", tmp_path / "go"
    objects = f"file://{tmp_path / 'objects'}"
    replicas = Replicas(tmp_path, postgres, 2, "--object-store", objects, lease="3s", relay=True)
    try:
        first, second = replicas.all
        publish_skills(first.http)
        inputs = {"id": {"value": 5}, "log": {"value": str(log)}, "wait": {"value": str(go)}}
        steps = [
            step("fetch", inputs={"month": {"value": "x"}, "log": {"value": str(log)}}),
            step("double", after=["fetch"], inputs=inputs),
            {"id": "sign", "approval": {"text": "Is it good?"}, "after": ["double"]},
        ]
        outputs = {"twice": {"from": "steps.double.outputs.twice"}}
        assert publish(first.http, inputs=OPEN, steps=steps, outputs=outputs).status_code == 201
        run = start(first.http, {})
        attempt = eventually(
            lambda: (a := step_of(shown(second.http, run), "double")["attempts"]) and a[0]["execution"] and a[0], "it runs", 60
        )
        eventually(lambda: "double" in log.read_text(), "it has begun")
        first.kill()
        owner = "SELECT r.name FROM himalia.workflow_runs w JOIN himalia.replicas r ON r.epoch = w.epoch"
        eventually(lambda: replicas.sql(owner) == ["r1"], lambda: f"{replicas.sql(owner)}", 60)
        go.touch()
        waiting(second.http, run)
        found = step_of(shown(second.http, run), "double")["attempts"]
        assert [(one["execution"], one["status"]) for one in found] == [(attempt["execution"], "succeeded")]
        assert log.read_text() == "fetch\ndouble 5\n"
        first.start()
        # A replica that has not the run takes the answer.
        assert answer(first.http, run, "sign", "approve").status_code == 200
        done = ended(first.http, run)
        assert (done["status"], done["outputs"]) == ("succeeded", {"twice": 10}), done
    finally:
        replicas.stop()


def test_a_run_follows_the_session_of_its_step(tmp_path, postgres, kernel_python):
    log, go = tmp_path / "log", tmp_path / "go"
    objects = f"file://{tmp_path / 'objects'}"
    replicas = Replicas(tmp_path, postgres, 2, "--object-store", objects, relay=True)
    try:
        first, second = replicas.all
        publish_skills(first.http)
        steps = [step("double", inputs={"id": {"value": 5}, "log": {"value": str(log)}, "wait": {"value": str(go)}})]
        outputs = {"twice": {"from": "steps.double.outputs.twice"}}
        assert publish(first.http, inputs=OPEN, steps=steps, outputs=outputs).status_code == 201
        run = start(first.http, {})
        eventually(lambda: log.exists(), "it has begun", 60)
        # As after the end of a replica whose run and whose session were taken by two others.
        replicas.sql("UPDATE himalia.workflow_runs SET epoch = (SELECT epoch FROM himalia.replicas WHERE name = 'r1') RETURNING epoch")
        owner = "SELECT r.name FROM himalia.workflow_runs w JOIN himalia.replicas r ON r.epoch = w.epoch"
        eventually(lambda: replicas.sql(owner) == ["r0"], lambda: f"{replicas.sql(owner)}", 60)
        go.touch()
        done = ended(second.http, run)
        assert (done["status"], done["outputs"]) == ("succeeded", {"twice": 10}), done
        assert log.read_text() == "double 5\n"
    finally:
        replicas.stop()


def test_an_agent_finds_runs_and_looks_at_a_workflow(skilled):
    approval = [{"id": "sign", "approval": {"text": "Pay these?", "options": ["pay", "stop"]}, "inputs": {"month": {"from": "inputs.month"}}}]
    signed = definition(name="signed", steps=approval, outputs={"by": {"from": "steps.sign.outputs.by"}})
    assert skilled.http.post("v1/workflows", json={"definition": signed}).status_code == 201

    async def works():
        async with agent(skilled) as client:

            async def call(**arguments):
                return await client.call_tool("workflow", arguments)

            assert "workflow" in {tool.name for tool in (await client.list_tools()).tools}
            assert "monthly 1.0.0: Adds a month up." in text(await call(op="list"))
            shown = text(await call(op="show", name="monthly"))
            assert "step add: add 1.0.0 after double, other" in shown and shown.endswith("outputs: month, total")
            done = await call(op="run", name="monthly", inputs={"month": "2026-10"}, wait_s=90)
            assert not done.is_error and json.loads(text(done)) == {"total": 112, "month": "2026-10"}
            asks = await call(op="run", name="signed", inputs={"month": "2026-10"}, wait_s=0)
            asked = whole(asks)["run"]
            eventually(lambda: step_of(shown_run(asked), "sign")["status"] == "waiting", lambda: shown_run(asked), 30)
            waits = await call(op="look", run=asked)
            assert not waits.is_error and whole(waits)["steps"] == {"sign": "waiting"}
            assert 'for a person: Pay these? [pay, stop] {"month":"2026-10"}' in text(waits), text(waits)
            assert answer(skilled.http, {"id": asked}, "sign", "stop").status_code == 200
            failed = await call(op="look", run=asked, wait_s=30)
            assert failed.is_error and "step sign" in text(failed) and whole(failed)["status"] == "failed"
            for wrong, code in [
                ({"op": "run", "name": "monthly", "inputs": {}}, "bad_request"),
                ({"op": "show", "name": "nobodys"}, "workflow_not_found"),
                ({"op": "look"}, "bad_request"),
                ({"op": "look", "run": "run_1"}, "run_not_found"),
            ]:
                refused = await call(**wrong)
                assert refused.is_error and whole(refused)["code"] == code, refused

    def shown_run(one):
        return shown(skilled.http, {"id": one})

    run(works)
