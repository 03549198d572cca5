"""Skills on a gateway with real kernels: published, tested, run, promoted from a session, and the ones of agents."""

import json
import subprocess

import pytest
from agents import agent, text, whole
from agents import run as run_agent
from terminal import command
from waiting import eventually

MAIN = """\
import helper

def main(month, limit=3):
    print("at work")
    if month == "bad":
        raise ValueError("no such month")
    if month == "wrong":
        return {"total": "x"}
    if month == "long":
        return {"total": 1, "text": "y" * 5000}
    return {"total": helper.total(limit)}
"""
HELPER = "def total(limit):\n    return sum(range(limit))\n"


def manifest(**changes):
    """A manifest, with members in the place of others."""
    plain = {
        "name": "reconcile",
        "version": "1.0.0",
        "kind": "code",
        "description": "Adds numbers up.",
        "inputs": {
            "type": "object",
            "properties": {"month": {"type": "string"}, "limit": {"type": "integer", "minimum": 0}},
            "required": ["month"],
            "additionalProperties": False,
        },
        "outputs": {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]},
        "tests": [
            {"name": "plain", "inputs": {"month": "x"}, "outputs": {"total": 3}},
            {"name": "bad", "inputs": {"month": "bad"}, "error": "ValueError"},
        ],
    }
    return {**plain, **changes}


def publish(server, main=MAIN, **changes):
    """Publish the skill of this file."""
    files = {"main.py": {"text": main}, "helper.py": {"text": HELPER}}
    return server.http.post("v1/skills", json={"manifest": manifest(**changes), "files": files})


@pytest.fixture
def skill(shared):
    """A published skill."""
    reply = publish(shared)
    assert reply.status_code == 201, reply.text
    yield reply.json()
    assert shared.http.delete("v1/skills/reconcile").status_code == 204


def run(server, name="reconcile", **body):
    """Run a skill to its end."""
    reply = server.http.post(f"v1/skills/{name}/runs", json=body, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_version_is_there_once_and_never_changes(shared, skill):
    assert skill["digest"].startswith("sha256:") and skill["published_by"] == "operator"
    again = publish(shared)
    assert (again.status_code, again.json()["digest"]) == (200, skill["digest"])
    changed = publish(shared, main=MAIN + "# more\n")
    assert (changed.status_code, changed.json()["code"]) == (409, "conflict")
    assert publish(shared, version="1.1.0-rc.1", description="Newer.").status_code == 201
    assert publish(shared, version="0.9.0", description="Older.").status_code == 201
    (listed,) = shared.http.get("v1/skills").json()["skills"]
    assert listed["versions"] == ["1.1.0-rc.1", "1.0.0", "0.9.0"]
    latest = shared.http.get("v1/skills/reconcile").json()
    assert latest["version"] == "1.0.0", "one before a release is no default"
    assert latest["manifest"] == manifest() and latest["files"]["helper.py"] == {"text": HELPER}
    assert shared.http.get("v1/skills/reconcile", params={"version": "0.9.0"}).json()["manifest"]["description"] == "Older."
    assert shared.http.delete("v1/skills/reconcile", params={"version": "0.9.0"}).status_code == 204
    unknown = shared.http.get("v1/skills/reconcile", params={"version": "0.9.0"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "skill_not_found")


def test_what_is_wrong_with_a_skill_is_named(shared):
    for changes, field in [
        ({"outputs": None}, "outputs"),
        ({"inputs": {"type": "array"}}, "inputs"),
        ({"name": "A"}, "name"),
        ({"tests": [{"name": "x", "inputs": {}}]}, "tests"),
    ]:
        reply = publish(shared, **changes)
        assert (reply.status_code, reply.json().get("field")) == (400, field), reply.text
    outside = {"manifest": manifest(), "files": {"main.py": {"text": MAIN}, "../x": {"text": ""}}}
    assert shared.http.post("v1/skills", json=outside).json()["field"] == "files"


def test_a_run_is_an_execution_of_a_session_that_ends_with_it(shared, skill):
    done = run(shared, inputs={"month": "x", "limit": 5})
    assert (done["status"], done["outputs"], done["violations"], done["error"]) == ("succeeded", {"total": 10}, [], None)
    assert (done["kind"], done["name"], done["version"], done["digest"]) == ("skill", "reconcile", "1.0.0", skill["digest"])
    assert done["result"]["text"] == "at work\n" and done["origin"] == {"kind": "client", "id": None}
    session = done["session"]
    eventually(lambda: shared.http.get(f"v1/sessions/{session}").json()["ended"] is not None, lambda: "it lives")
    again = shared.http.get(f"v1/runs/{done['id']}").json()
    assert again["outputs"] == {"total": 10}, "from the log of the ended session"
    # Large outputs are stored beside the log.
    assert len(run(shared, inputs={"month": "long"})["outputs"]["text"]) == 5000


def test_a_repeated_request_with_a_key_is_the_same_run(shared, skill):
    def keyed(key, **inputs):
        headers = {"Idempotency-Key": key}
        return shared.http.post("v1/skills/reconcile/runs", json={"inputs": {"month": "x", **inputs}}, headers=headers, timeout=120)

    first = keyed("one")
    assert first.status_code == 200 and "idempotency-replayed" not in first.headers, first.text
    session = first.json()["session"]
    # Also when its session has ended, and another version is the latest one.
    eventually(lambda: shared.http.get(f"v1/sessions/{session}").json()["ended"] is not None, lambda: "it lives")
    assert publish(shared, version="1.0.1").status_code == 201
    again = keyed("one")
    assert again.status_code == 200 and again.headers["idempotency-replayed"] == "true", again.text
    assert again.json() == first.json()
    other = keyed("one", limit=4)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused"), other.text
    assert keyed("two").json()["id"] != first.json()["id"]


def test_inputs_and_outputs_are_checked_at_both_ends(shared, skill):
    for inputs, path in [({"month": 1}, "/month"), ({}, "required"), ({"month": "x", "limit": -1}, "/limit")]:
        reply = shared.http.post("v1/skills/reconcile/runs", json={"inputs": inputs})
        assert (reply.status_code, reply.json()["field"]) == (400, "inputs"), reply.text
        assert path in reply.json()["detail"]
    wrong = run(shared, inputs={"month": "wrong"})
    assert (wrong["status"], wrong["violations"][0]["path"]) == ("failed", "/total")
    raised = run(shared, inputs={"month": "bad"})
    assert (raised["status"], raised["outputs"], raised["result"]["error"]["name"]) == ("failed", None, "ValueError")
    assert 'raise ValueError("no such month")' in "\n".join(raised["result"]["error"]["traceback"])


def test_a_run_can_be_waited_for_and_its_time_is_bounded(shared):
    main = "import asyncio\n\nasync def main():\n    await asyncio.sleep(60)\n"
    quick = {"inputs": {"type": "object"}, "outputs": True, "tests": [], "timeout_s": 1}
    assert publish(shared, main=main, **quick).status_code == 201
    begun = shared.http.post("v1/skills/reconcile/runs", json={"wait_s": 0})
    assert begun.status_code == 202 and begun.json()["status"] == "running", begun.text
    where = begun.headers["location"]
    ended = shared.http.get(where[where.index("v1/") :], params={"wait_s": 60}).json()
    assert (ended["status"], ended["result"]["status"], ended["result"].get("death")) == ("failed", "timeout", None)
    assert shared.http.delete("v1/skills/reconcile").status_code == 204
    gone = shared.http.get(f"v1/runs/{ended['id']}")
    assert gone.status_code == 200, "nothing is to be checked"


STUBBORN = """
import time

def main():
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try: time.sleep(1)
        except BaseException: pass
"""


def test_a_run_that_ignores_interrupts_is_ended(shared):
    quick = {"inputs": {"type": "object"}, "outputs": True, "tests": [], "timeout_s": 1}
    assert publish(shared, main=STUBBORN, **quick).status_code == 201
    reply = shared.http.post("v1/skills/reconcile/runs", json={"wait_s": 60}, timeout=120)
    ended = reply.json()
    assert (reply.status_code, ended["status"], ended["result"]["status"]) == (200, "failed", "kernel_died"), ended
    assert ended["result"]["death"]["cause"] == "execution_timeout"
    assert "ignored interrupts" in ended["error"]["message"] and "timeout_s" in ended["error"]["message"]
    assert shared.http.delete("v1/skills/reconcile").status_code == 204


def test_instructions_are_the_folder_of_an_agent(shared):
    text = "---\nname: pdf-forms\ndescription: Fill PDF forms.\nmetadata:\n  version: '2.1'\n---\n# Forms\n"
    files = {"SKILL.md": {"text": text}, "logo.png": {"base64": "iVBORw=="}}
    assert shared.http.post("v1/skills", json={"files": files}).status_code == 201
    shown = shared.http.get("v1/skills/pdf-forms").json()
    assert (shown["version"], shown["manifest"]["kind"], shown["files"]) == ("2.1.0", "instructions", files)
    refused = shared.http.post("v1/skills/pdf-forms/runs", json={})
    assert (refused.status_code, refused.json()["field"]) == (400, "kind")
    assert shared.http.delete("v1/skills/pdf-forms").status_code == 204


def test_cells_of_a_session_become_a_skill(shared, session):
    base = f"v1/sessions/{session}"
    for code in ["import math\nradius = 2.5", "oops", "text = '''a\n  b'''\narea = round(math.pi * radius ** 2, 2)"]:
        shared.http.post(f"{base}/executions", json={"code": code}, timeout=60)
    cells = [one["seq"] for one in shared.http.get(f"{base}/history").json()["history"] if one["status"] == "ok"]
    wanted = {"name": "circle", "description": "Area.", "cells": cells, "inputs": ["radius"], "outputs": ["area", "text"]}
    draft = shared.http.post(f"{base}/skill", json=wanted)
    assert draft.status_code == 200, draft.text
    draft = draft.json()
    assert draft["published"] is None and draft["manifest"]["tests"][0]["inputs"] == {"radius": 2.5}
    new = {"manifest": draft["manifest"], "files": draft["files"]}
    assert shared.http.post("v1/skills", json=new).status_code == 201
    assert run(shared, "circle", inputs={"radius": 1.0})["outputs"] == {"area": 3.14, "text": "a\n  b"}
    assert shared.http.delete("v1/skills/circle").status_code == 204
    unknown = shared.http.post(f"{base}/skill", json={**wanted, "cells": [10**6]})
    assert (unknown.status_code, unknown.json()["field"]) == (400, "cells")
    repeated = shared.http.post(f"{base}/skill", json={**wanted, "cells": [cells[0]] * 200})
    assert (repeated.status_code, repeated.json()["field"]) == (400, "cells") and "twice" in repeated.text, repeated.text
    long = shared.http.post(f"{base}/executions", json={"code": f"x = '{'y' * 300_000}'"}, timeout=60)
    assert shared.http.post(f"{base}/executions", json={"code": f"z = '{'y' * 300_000}'"}, timeout=60).json()["status"] == "ok", long.text
    numbers = [one["seq"] for one in shared.http.get(f"{base}/history").json()["history"]][-2:]
    big = shared.http.post(f"{base}/skill", json={**wanted, "cells": numbers})
    assert big.status_code == 400 and "bytes of code together" in big.text, big.text


def doubling(depth, leaf):
    """A schema of which each definition has the one before twice."""
    definitions = {"a0": leaf}
    for level in range(1, depth + 1):
        definitions[f"a{level}"] = {"allOf": [{"$ref": f"#/$defs/a{level - 1}"}] * 2}
    return {"type": "object", "$defs": definitions, "properties": {"x": {"$ref": f"#/$defs/a{depth}"}}}


def test_schemas_that_cost_much_are_refused_with_their_number(shared):
    def published(schema, inputs):
        tests = [{"name": "t", "inputs": inputs}]
        manifest = {"name": "bomb", "version": "1.0.0", "kind": "code", "description": "d", "inputs": schema, "outputs": {}, "tests": tests}
        return shared.http.post("v1/skills", json={"manifest": manifest, "files": {"main.py": {"text": "def main(x=1):\n    pass\n"}}})

    for depth in (18, 20, 23, 26):
        for leaf in ({"type": "string"}, {}):
            refused = published(doubling(depth, leaf), inputs={"x": 1})
            assert refused.status_code == 400 and "at most 10000 are allowed" in refused.text, refused.text
            workflow = {"name": "bomb", "version": "1.0.0", "description": "d", "inputs": doubling(depth, leaf), "steps": [{"id": "a", "approval": {"text": "?"}}]}
            refused = shared.http.post("v1/workflows", json={"definition": workflow})
            assert refused.status_code == 400 and "at most 10000 are allowed" in refused.text, refused.text
    patterns = {"type": "object", "properties": {f"p{at}": {"pattern": f"\\p{{L}}{{60}}{at}"} for at in range(80)}}
    assert "80 different patterns" in published(patterns, inputs={}).text
    # It doubles with each level of the value.
    twice = {"properties": {"c": {"$ref": "#"}}}
    value = {}
    for _ in range(60):
        value = {"c": value}
    refused = published({"type": "object", "allOf": [twice, dict(twice)]}, inputs=value)
    assert refused.status_code == 400 and "too much to check" in refused.text, refused.text


def cli(gateway, *arguments, code=0):
    """A command of the client: what it prints."""
    done = subprocess.run(command(gateway, "skill", *arguments), capture_output=True, text=True, timeout=100)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_the_client_makes_tests_and_publishes_a_folder(shared, tmp_path):
    folder = tmp_path / "hello"
    subprocess.run([*shared.command(), "skill", "new", "hello", "--dir", str(folder)], check=True)
    assert "ok      a name" in cli(shared, "test", str(folder))
    main = (folder / "main.py").read_text()
    (folder / "main.py").write_text(main.replace("Hello", "Bye"))
    assert "FAILED  a name: outputs are" in cli(shared, "test", str(folder), code=1)
    (folder / "main.py").write_text(main)
    assert "hello 0.1.0 published: sha256:" in cli(shared, "publish", str(folder))
    assert "was there already" in cli(shared, "publish", str(folder))
    assert "hello  0.1.0" in cli(shared, "ls")
    assert 'return {"greeting"' in cli(shared, "show", "hello")
    assert json.loads(cli(shared, "run", "hello", "--input", "name=Eve")) == {"greeting": "Hello, Eve"}
    assert "name" in cli(shared, "run", "hello", code=1)
    cli(shared, "show", "hello", "--output", str(tmp_path / "copy"))
    assert "was there already" in cli(shared, "publish", str(tmp_path / "copy"))
    cli(shared, "rm", "hello")
    assert "no skills" in cli(shared, "ls")


def test_an_agent_finds_reads_and_runs_skills(shared, skill):
    async def look():
        async with agent(shared, "http", "auto") as client:
            assert "skill" in [tool.name for tool in (await client.list_tools()).tools]
            listed = await client.call_tool("skill", {"op": "list"})
            assert text(listed) == "reconcile 1.0.0 (code): Adds numbers up.\n"
            shown = await client.call_tool("skill", {"op": "show", "name": "reconcile"})
            assert '"month":{"type":"string"}' in text(shown) and "files: helper.py, main.py" in text(shown)
            helper = await client.call_tool("skill", {"op": "show", "name": "reconcile", "file": "helper.py"})
            assert text(helper) == HELPER
            done = await client.call_tool("skill", {"op": "run", "name": "reconcile", "inputs": {"month": "x"}})
            assert (text(done), whole(done)["outputs"]) == ('{"total":3}', {"total": 3})
            failed = await client.call_tool("skill", {"op": "run", "name": "reconcile", "inputs": {"month": "bad"}})
            assert failed.is_error and "ValueError: no such month" in text(failed)
            wrong = await client.call_tool("skill", {"op": "run", "name": "reconcile", "inputs": {}})
            assert wrong.is_error and "inputs" in text(wrong) and "month" in text(wrong)

    run_agent(look)
