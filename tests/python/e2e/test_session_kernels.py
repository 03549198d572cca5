"""Several kernels in a session: one directory, and variables of their own."""

import os
import shutil
from pathlib import Path

import pytest
from channels import Channels
from servers import Himalia


@pytest.fixture(scope="module")
def with_bash(tmp_path_factory, kernel_python):
    """A gateway that has the Bash kernel beside its own."""
    root = tmp_path_factory.mktemp("kernels")
    kernels = Path(os.environ["HIMALIA_OTHER_KERNELS"], "share/jupyter/kernels")
    shutil.copytree(kernels / "bash", root / "specs/bash")
    own = Himalia(root / "gateway", "--kernelspec-dir", str(root / "specs"))
    yield own
    own.stop()


@pytest.fixture
def session(with_bash):
    """A session of the native API, with its first kernel."""
    session = with_bash.start_session()
    yield session
    with_bash.delete_session(session)


def add(gateway, session, **wanted):
    """An additional kernel."""
    reply = gateway.http.post(f"v1/sessions/{session}/kernels", json=wanted)
    assert reply.status_code == 201, reply.text
    return reply.json()["id"]


def run(gateway, session, code, **more):
    """Run code and return its result."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code == 200, reply.text
    result = reply.json()
    assert result["status"] == "ok", result
    return result


def test_kernels_share_files_and_not_variables(with_bash, session):
    python, bash = add(with_bash, session), add(with_bash, session, kernelspec="bash")
    run(with_bash, session, "import os; kept = 1; open('from-first', 'w').write('one')")
    assert run(with_bash, session, "open('from-first').read(), 'kept' in dir()", kernel=python)["outputs"][0]["data"][
        "text/plain"
    ] == "('one', False)"
    run(with_bash, session, "kept = 2", kernel=python)
    assert run(with_bash, session, "cat from-first; kept=3; echo $kept > from-bash", kernel=bash)["text"].strip() == "one"
    assert run(with_bash, session, "echo $kept", kernel=bash)["text"] == "3\n"
    result = run(with_bash, session, "open('from-bash').read(), kept, os.getcwd()")
    text, kept, directory = eval(result["outputs"][0]["data"]["text/plain"])
    assert (text, kept) == ("3\n", 1)
    assert run(with_bash, session, "pwd", kernel=bash)["text"].strip() == directory

    base = f"v1/sessions/{session}"
    kernels = with_bash.http.get(f"{base}/kernels").json()["kernels"]
    assert [(one["id"], one["kernelspec"], one["first"]) for one in kernels] == [
        (session, "python3", True),
        (python, "python3", False),
        (bash, "bash", False),
    ]
    values = {}
    for kernel in (session, python):
        listed = with_bash.http.get(f"{base}/variables", params={"kernel": kernel}).json()["variables"]
        values[kernel] = {one["name"]: one["preview"] for one in listed}["kept"]
    assert values == {session: "1", python: "2"}
    matches = with_bash.http.post(f"{base}/complete", json={"code": "kep", "kernel": python}).json()["matches"]
    assert "kept" in matches


def test_a_jupyter_client_attaches_and_the_session_ends_all(with_bash, session):
    bash = add(with_bash, session, kernelspec="bash")
    assert bash in [one["id"] for one in with_bash.http.get("api/kernels").json()]
    assert bash not in [one["id"] for one in with_bash.http.get("v1/sessions").json()["sessions"]]
    with Channels(with_bash, bash) as client:
        assert client.run("echo $((6 * 7))").text() == "42\n"
        with_bash.delete_kernel(bash)
        assert client.run("echo still here").text() == "still here\n"
    # While the first one works, the other answers.
    base = f"v1/sessions/{session}/executions"
    body = {"code": "import time\nwhile True: time.sleep(0.1)", "background": True}
    assert with_bash.http.post(base, json=body).status_code == 202
    assert run(with_bash, session, "echo free", kernel=bash)["text"] == "free\n"
    assert with_bash.http.delete(f"v1/sessions/{session}").status_code == 204
    assert bash not in [one["id"] for one in with_bash.http.get("api/kernels").json()]
