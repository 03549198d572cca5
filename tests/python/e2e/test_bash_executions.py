"""Executions in Bash: in turn with the others, in the same directory, with the same result."""

import json
import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from servers import Himalia
from waiting import eventually


def run(gateway, session, code, **more):
    """Run code and return its result."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def bash(gateway, session, code, **more):
    """Run a script and return its result."""
    return run(gateway, session, code, language="bash", **more)


def test_scripts_take_their_turn_and_share_the_directory(shared, session):
    path = run(shared, session, "import os; os.getcwd()")["outputs"][0]["data"]["text/plain"]
    wait = "import time\nwhile not os.path.exists('gate'): time.sleep(0.02)\nopen('from-python', 'w').write('1')"
    behind = [{"code": wait}, {"code": "pwd; cat from-python; echo 2 >> from-python", "language": "bash"}]
    behind.append({"code": "open('from-python').read()"})
    base = f"v1/sessions/{session}/executions"
    taken = [shared.http.post(base, json={**body, "background": True}).json()["id"] for body in behind]
    Path(path.strip("'"), "gate").touch()
    show = [f"v1/executions/{one}" for one in taken]
    eventually(lambda: shared.http.get(show[2]).json()["status"] == "ok", "all three are over", 60)
    script = shared.http.get(show[1]).json()
    assert script["text"] == f"{path.strip(chr(39))}\n1"
    assert (script["status"], script["exit_code"], script["language"]) == ("ok", 0, "bash")
    assert script["files"]["written"] == ["from-python"]
    last = shared.http.get(show[2]).json()
    assert last["outputs"][0]["data"]["text/plain"] == "'12\\n'" and "language" not in last and "exit_code" not in last


def test_a_failure_has_its_code_and_a_timeout_leaves_the_kernel(shared, session):
    run(shared, session, "kept = 42")
    for failed_before in range(2):
        failed = bash(shared, session, "echo out; echo problem >&2; exit 3")
        assert (failed["status"], failed["exit_code"]) == ("error", 3)
        assert sorted(failed["text"].splitlines()) == ["out", "problem"]
        error = {"name": "BashError", "value": "exit code 3", "traceback": ["BashError: exit code 3"]}
        assert failed["error"] == {**error, "frame": None, "hint": None}
        assert failed["failed_before"] == failed_before
    # The same text in another language is another code.
    assert run(shared, session, "echo out; echo problem >&2; exit 3")["failed_before"] == 0
    late = bash(shared, session, "echo begun; sleep 1000; echo no", timeout_s=1)
    assert (late["status"], late["text"], late["error"]["name"]) == ("timeout", "begun\n", "KeyboardInterrupt")
    assert "exit_code" not in late and late["error"]["frame"] is None
    again = run(shared, session, "kept", expect_incarnation=1)
    assert again["outputs"][0]["data"]["text/plain"] == "42"


def test_output_is_streamed_and_an_interrupt_ends_it(shared, session):
    body = {"code": "echo $$; cat; echo after; sleep 1000", "language": "bash"}
    headers, seen = {"Accept": "application/x-ndjson"}, []
    base = f"v1/sessions/{session}/executions"
    with shared.http.stream("POST", base, json=body, headers=headers, timeout=120) as response:
        assert response.status_code == 200, response.read()
        path = response.headers["location"].lstrip("/")
        for line in response.iter_lines():
            seen.append(json.loads(line))
            if seen[-1]["event"] == "stdout" and "after" in seen[-1]["text"]:
                assert shared.http.post(f"{path}/interrupt").status_code == 202
    text = "".join(event["text"] for event in seen if event["event"] == "stdout")
    group, after = text.split()
    assert after == "after" and seen[-1]["result"]["status"] == "interrupted"
    with pytest.raises(ProcessLookupError):
        os.killpg(int(group), 0)


def test_record_history_notebook_and_script_keep_the_text(shared, session):
    code = "for n in 1 2; do\n  printf '%s\\n' \"$n\"\ndone"
    result = bash(shared, session, code, idempotency_key="once")
    assert result["text"] == "1\n2\n"
    body = {"code": code, "language": "bash", "idempotency_key": "once"}
    base = f"v1/sessions/{session}"
    again = shared.http.post(f"{base}/executions", json=body)
    assert again.json()["id"] == result["id"] and again.headers["idempotency-replayed"] == "true"
    python = shared.http.post(f"{base}/executions", json={**body, "language": "python"})
    assert python.json()["code"] == "idempotency_key_reused"
    [listed] = shared.http.get(f"{base}/executions").json()["executions"]
    assert (listed["language"], listed["title"]) == ("bash", "for n in 1 2; do")
    [entry] = shared.http.get(f"{base}/history").json()["history"]
    assert (entry["language"], entry["code"]) == ("bash", code)
    book = nbformat.reads(shared.http.get(f"{base}/notebook.ipynb").text, as_version=4)
    nbformat.validate(book)
    assert book.cells[0].source == f"%%bash\n{code}" and book.cells[0].outputs[0].text == "1\n2\n"
    assert book.cells[0].metadata.himalia.language == "bash"
    script = shared.http.get(f"{base}/script.py").text
    ran = subprocess.run(["python3", "-c", script], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert ran.stdout == "1\n2\n"


def test_languages_that_are_not_run_are_named(shared, session, tmp_path, kernel_python):
    def refused(gateway, session, language):
        body = {"code": "1", "language": language}
        reply = gateway.http.post(f"v1/sessions/{session}/executions", json=body)
        assert (reply.status_code, reply.json()["code"]) == (400, "language_not_supported"), reply.text
        return reply.json()["detail"]

    assert '"ruby"' in refused(shared, session, "ruby") and '"bash"' in refused(shared, session, "ruby")
    assert run(shared, session, "6 * 7", language="Python")["outputs"][0]["data"]["text/plain"] == "42"
    spec = tmp_path / "specs" / "plain"
    spec.mkdir(parents=True)
    argv = [str(kernel_python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "plain", "language": "python"}))
    other = Himalia(tmp_path / "gateway", env={"HIMALIA_KERNELSPEC_DIRS": str(tmp_path / "specs")})
    try:
        plain = other.http.post("v1/sessions", json={"template": "plain"}).json()["id"]
        assert "alone" in refused(other, plain, "bash")
    finally:
        other.stop()


def test_the_command_line_exits_with_the_result(shared, session):
    options = ["--url", shared.url, "--token-file", str(shared.token_file)]
    command = [os.environ["HIMALIA_BIN"], "exec", *options, "--bash", session, "echo hello; exit 3"]
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "hello\n", "BashError: exit code 3\n")
