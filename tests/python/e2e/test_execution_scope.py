"""Environment, directory and metadata of one execution: they are there while it runs, and as before afterwards."""

import json

import pytest


def run(server, session, code, **more):
    """Run code and return its result."""
    reply = server.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def value(result):
    """The value of the last expression."""
    assert result["status"] == "ok", result
    return result["outputs"][-1]["data"]["text/plain"]


def test_variables_and_directory_are_restored(shared, session):
    run(shared, session, "import os\nos.environ['KEPT'] = 'old'\nos.makedirs('sub', exist_ok=True)\nhome = os.getcwd()")
    code = "(os.environ['KEPT'], os.environ.get('NEW'), os.path.relpath(os.getcwd(), home))"
    scope = {"env": {"KEPT": "new", "NEW": "1"}, "cwd": "sub"}
    assert value(run(shared, session, code, **scope)) == "('new', '1', 'sub')"
    assert value(run(shared, session, code)) == "('old', None, '.')"
    # Whatever the code does with them, or however it ends.
    spoil = "os.environ.pop('KEPT'); os.environ['NEW'] = '2'; os.environ['OTHER'] = '3'; os.chdir('/'); 1/0"
    assert run(shared, session, spoil, **scope)["status"] == "error"
    after = "(os.environ['KEPT'], os.environ.get('NEW'), os.environ['OTHER'], os.path.relpath(os.getcwd(), home))"
    assert value(run(shared, session, after)) == "('old', None, '3', '.')"
    late = run(shared, session, "import time\ntime.sleep(60)", timeout_s=0.3, **scope)
    assert late["status"] == "timeout"
    assert value(run(shared, session, code)) == "('old', None, '.')"
    # Code that awaits, and a script.
    awaits = "import asyncio\nawait asyncio.sleep(0.01)\n" + code
    assert value(run(shared, session, awaits, **scope)) == "('new', '1', 'sub')"
    script = run(shared, session, "echo $NEW $(basename $PWD)", language="bash", **scope)
    assert script["text"] == "1 sub\n", script
    assert value(run(shared, session, code)) == "('old', None, '.')"


def test_code_without_its_directory_is_not_run(shared, session):
    refused = run(shared, session, "ran = True", cwd="nowhere", env={"A": "b"})
    assert refused["status"] == "error" and refused["error"]["name"] == "FileNotFoundError", refused
    assert "nowhere" in refused["error"]["value"]
    assert value(run(shared, session, "import os\n('ran' in globals(), 'A' in os.environ)")) == "(False, False)"


def test_metadata_stay_with_the_execution(shared, session):
    metadata = {"ticket": 7, "tags": ["a", "b"], "nested": {"x": None}}
    done = run(shared, session, "1", metadata=metadata)
    assert done["metadata"] == metadata
    assert "metadata" not in run(shared, session, "2")
    base = f"v1/sessions/{session}"
    for path, member in [("executions", "executions"), ("history", "history")]:
        listed = shared.http.get(f"{base}/{path}").json()[member]
        assert [one.get("metadata") for one in listed] == [metadata, None], path
    assert shared.http.get(f"v1/executions/{done['id']}").json()["metadata"] == metadata


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"env": {"A=": "b"}}, "env"),
        ({"env": {"A": "x" * 70_000}}, "env"),
        ({"cwd": ""}, "cwd"),
        ({"cwd": "x" * 5000}, "cwd"),
        ({"metadata": {"a": "x" * 5000}}, "metadata"),
        ({"metadata": [1]}, "metadata"),
    ],
)
def test_what_cannot_be_is_named(shared, session, members, field):
    reply = shared.http.post(f"v1/sessions/{session}/executions", json={"code": "1", **members})
    assert reply.status_code == 400 and reply.json()["field"].startswith(field), reply.text


def test_a_key_covers_them(shared, session):
    body = {"code": "1", "env": {"A": "b"}, "idempotency_key": "scoped"}
    first = run(shared, session, **body)
    assert run(shared, session, **body)["id"] == first["id"]
    other = shared.http.post(f"v1/sessions/{session}/executions", json={**body, "env": {"A": "c"}})
    assert other.status_code == 422 and json.loads(other.text)["code"] == "idempotency_key_reused"
