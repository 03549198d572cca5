"""What can still be read of an ended session, from its gateway and from the next one."""

import nbformat
from waiting import eventually


def run(gateway, session, code, **more):
    """Run code and return its result."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def problem(reply):
    """Status and code of a problem document."""
    assert reply.headers["content-type"] == "application/problem+json"
    return reply.status_code, reply.json()["code"]


def look(gateway, session, result):
    """Everything that is there of the session; the commands on it are refused."""
    shown = gateway.http.get(f"v1/sessions/{session}").json()
    assert (shown["state"], shown["reason"], shown["incarnation"]) == ("ended", "killed_by_user", 1)
    assert shown["created"] < shown["ended"] < shown["kept_until"] and shown["labels"] == {"task": "eda"}
    listed = gateway.http.get("v1/sessions", params={"ended": "true", "label": "task=eda"}).json()["sessions"]
    # The memory of an ended session is not measured.
    assert listed == [{**shown, "memory_used_bytes": None}]
    assert gateway.http.get("v1/sessions", params={"ended": "true", "label": "task=x"}).json()["sessions"] == []
    assert session not in [one["id"] for one in gateway.http.get("v1/sessions").json()["sessions"]]

    at = f"v1/sessions/{session}"
    history = gateway.http.get(f"{at}/history").json()
    codes = ["x = 6 * 7\nprint(x)", "1/0", "import time; time.sleep(600)"]
    assert [one["code"] for one in history["history"]] == codes
    statuses = [one["status"] for one in history["history"]]
    # An end is polite first: what runs is interrupted.
    assert statuses[:2] == ["ok", "error"] and statuses[2] in ("interrupted", "kernel_died")
    executions = gateway.http.get(f"{at}/executions").json()["executions"]
    assert [one["status"] for one in executions] == statuses
    assert executions[0]["id"] == result["id"] and executions[0]["title"] == "x = 6 * 7"
    assert gateway.http.get(f"v1/executions/{result['id']}").json()["text"] == "42\n"
    reply = gateway.http.get(f"{at}/notebook.ipynb")
    notebook = nbformat.reads(reply.text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.cells[0].outputs[0].text == "42\n" and notebook.metadata.kernelspec.name == "python3"
    assert "print(x)" in gateway.http.get(f"{at}/script.py").text
    log = gateway.http.get(f"{at}/events", params={"after": 0}, timeout=60).text
    assert log.count("\nevent: execution\n") > 5 and "kernel_gone" in log

    refused = [
        gateway.http.post(f"{at}/executions", json={"code": "1"}),
        gateway.http.get(f"{at}/variables"),
        gateway.http.get(f"{at}/files"),
        gateway.http.put(f"{at}/files/a", content=b"x"),
        gateway.http.get(f"{at}/usage"),
        gateway.http.post(f"{at}/complete", json={"code": "x"}),
        gateway.http.patch(at, json={"labels": {"a": "b"}}),
        gateway.http.post(f"{at}/fork", json={}),
        gateway.http.post(f"{at}/interrupt"),
        gateway.http.post(f"{at}/restart"),
        gateway.http.delete(at),
    ]
    for reply in refused:
        assert problem(reply) == (410, "session_ended"), reply.text
        body = reply.json()
        assert (body["session"], body["ended"], body["reason"]) == (session, shown["ended"], "killed_by_user")
        assert body["retryable"] is False
    # To a Jupyter client it is a kernel that is not there.
    assert gateway.http.get(f"api/kernels/{session}").status_code == 404
    assert gateway.http.delete(f"api/kernels/{session}").status_code == 404


def test_a_session_can_be_read_after_its_end(gateway):
    session = gateway.http.put("v1/sessions/eda", json={"labels": {"task": "eda"}}).json()["id"]
    result = run(gateway, "eda", "x = 6 * 7\nprint(x)")
    assert run(gateway, "eda", "1/0")["status"] == "error"
    late = run(gateway, "eda", "import time; time.sleep(600)", background=True)
    state = f"v1/executions/{late['id']}"
    eventually(lambda: gateway.http.get(state).json()["status"] == "running", "the last one runs")
    assert gateway.http.delete("v1/sessions/eda").status_code == 204
    look(gateway, session, result)
    # The name is free; who asks for it learns what became of the last one.
    reply = gateway.http.get("v1/sessions/eda")
    assert problem(reply) == (404, "session_not_found") and reply.json()["session"] == session
    gateway.kill()
    gateway.start()
    look(gateway, session, result)
    again = gateway.http.put("v1/sessions/eda", json={}).json()
    assert again["id"] != session and gateway.http.get("v1/sessions/eda").json()["ended"] is None
