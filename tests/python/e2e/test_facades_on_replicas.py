"""Clients of E2B's, Azure's and OpenAI's APIs at a replica that does not have their session."""

import threading
from concurrent.futures import ThreadPoolExecutor

import e2b
import httpx
import pytest
from e2b_code_interpreter import Sandbox
from e2b_gateway import variables
from replicas import Replicas
from waiting import eventually

FACADES = ("--e2b", "--azure-sessions", "--openai-containers")


@pytest.fixture(scope="module")
def replicas(tmp_path_factory, postgres, kernel_python):
    """Two gateways that relay."""
    started = Replicas(tmp_path_factory.mktemp("facades"), postgres, 2, *FACADES, relay=True)
    yield started
    started.stop()


@pytest.fixture
def at(replicas, monkeypatch):
    """Points E2B's client at one of them."""
    known = [variables(replica) for replica in replicas.all]

    def at(number):
        for name, value in known[number].items():
            monkeypatch.setenv(name, value)

    yield at
    for session in replicas[0].http.get("v1/sessions").json()["sessions"]:
        replicas[0].http.delete(f"v1/sessions/{session['id']}")


@pytest.fixture
def sandbox(at):
    """A sandbox of one replica, as a client of the other one has it."""
    at(0)
    made = Sandbox.create(timeout=240)
    at(1)
    return Sandbox.connect(made.sandbox_id, timeout=240)


def test_code_runs_through_another_replica(sandbox):
    lines = []
    execution = sandbox.run_code("x = 6\nprint('ä😀')\nx * 7", on_stdout=lambda message: lines.append(message.line))
    assert execution.text == "42" and lines == ["ä😀\n"]
    context = sandbox.create_code_context(language="python")
    assert sandbox.run_code("x", context=context).error.name == "NameError"
    assert {one.id for one in sandbox.list_code_contexts()} == {sandbox.sandbox_id, context.id}
    sandbox.restart_code_context(context)
    sandbox.remove_code_context(context)
    with pytest.raises(e2b.TimeoutException):
        sandbox.run_code("import time\nn = 0\nwhile True:\n    n += 1; time.sleep(0.05)", timeout=2)
    assert int(sandbox.run_code("n", timeout=30).text) > 0, "a client that leaves interrupts its code there too"


def test_files_and_commands_through_another_replica(sandbox):
    large = bytes(range(256)) * 8192
    sandbox.files.write("dir/large", large)
    assert sandbox.files.read("dir/large", format="bytes") == large
    assert [one.name for one in sandbox.files.list("dir")] == ["large"]
    handle = sandbox.files.watch_dir("dir")
    sandbox.commands.run("rm dir/large")
    assert [(event.name, event.type.value) for event in handle.get_new_events()] == [("large", "remove")]
    handle.stop()
    with pytest.raises(e2b.FileNotFoundException):
        sandbox.files.read("dir/large")
    for refused in (lambda: sandbox.files.list("dir", user="root"), lambda: sandbox.commands.run("true", user="root")):
        with pytest.raises(e2b.InvalidArgumentException, match="one user"):
            refused()

    running = sandbox.commands.run("while read line; do echo got $line; done; echo end", background=True, stdin=True)
    assert [one.pid for one in sandbox.commands.list()] == [running.pid]
    sandbox.commands.send_stdin(running.pid, "one\n")
    running.disconnect()
    again = sandbox.commands.connect(running.pid)
    sandbox.commands.stream_input(running.pid, ["two\n"])
    again.close_stdin()
    assert again.wait().stdout.endswith("got two\nend\n")

    seen, ended = bytearray(), []
    terminal = sandbox.pty.create(e2b.PtySize(rows=30, cols=100))
    waiting = threading.Thread(target=lambda: ended.append(terminal.wait(on_pty=seen.extend)))
    waiting.start()
    sandbox.pty.send_stdin(terminal.pid, b"stty size\n")
    eventually(lambda: b"30 100" in seen, lambda: seen, 30)
    sandbox.pty.send_stdin(terminal.pid, b"exit 0\n")
    waiting.join(30)
    assert [one.exit_code for one in ended] == [0]


def test_the_control_plane_is_the_same_everywhere(at, sandbox):
    at(1)
    near = Sandbox.create(metadata={"which": "near"}, timeout=240)
    for number in (0, 1):
        at(number)
        assert {one.sandbox_id for one in Sandbox.list().next_items()} == {sandbox.sandbox_id, near.sandbox_id}
        pages, paginator = [], Sandbox.list(limit=1, order="asc")
        while paginator.has_next:
            pages.append([one.sandbox_id for one in paginator.next_items()])
        assert pages == [[sandbox.sandbox_id], [near.sandbox_id]]
        found = Sandbox.list(query=e2b.SandboxQuery(metadata={"which": "near"})).next_items()
        assert [one.sandbox_id for one in found] == [near.sandbox_id]
        assert Sandbox.connect(near.sandbox_id).run_code("1 + 1").text == "2"
    at(1)
    info = sandbox.get_info()
    sandbox.set_timeout(2000)
    assert (sandbox.get_info().end_at - info.end_at).total_seconds() > 1000
    assert sandbox.get_metrics()[0].cpu_count >= 1 and sandbox.is_running()
    sandbox.run_code("x = 7")
    sandbox.files.write("a", "of both")
    (fork,) = sandbox.fork(timeout=60)
    assert fork.run_code("x, open('a').read()").text == "(7, 'of both')" and fork.files.read("/home/user/a") == "of both"
    with pytest.raises(e2b.SandboxException, match="does not pause"):
        sandbox.pause()
    assert fork.kill() and sandbox.kill() and not sandbox.is_running()
    with pytest.raises(e2b.NotFoundException):
        sandbox.get_info()


def test_a_start_with_a_key_is_one_sandbox_everywhere(at):
    ids = set()
    for number in (0, 1):
        at(number)
        ids.add(Sandbox.create(idempotency_key="one-job", timeout=60).sandbox_id)
    assert len(ids) == 1


def test_signed_addresses_are_for_the_replica_that_has_the_sandbox(replicas, sandbox):
    sandbox.files.write("signed.txt", "signed")
    down = sandbox.download_url("signed.txt", use_signature_expiration=60)
    assert down.startswith(replicas[1].url)
    with httpx.Client(trust_env=False) as plain:
        refused = plain.get(down)
        assert refused.status_code == 401 and "sandbox of another replica" in refused.json()["message"], refused.text
        got = plain.get(down.replace(replicas[1].url, replicas[0].url))
        assert (got.status_code, got.text) == (200, "signed")


def test_an_identifier_of_azure_is_one_session_everywhere(replicas):
    def ran(number, identifier, code):
        response = replicas[number].http.post(
            "azure/python3/code/execute",
            params={"identifier": identifier, "api-version": "2024-02-02-preview"},
            json={"properties": {"codeInputType": "inline", "executionType": "synchronous", "code": code}},
            timeout=120,
        )
        assert response.status_code == 200, response.text
        return response.json()["properties"]

    assert ran(0, "one", "x = 41")["status"] == "Success"
    assert ran(1, "one", "x + 1")["result"] == 42
    named = {"params": {"identifier": "one", "api-version": "2024-02-02-preview"}}
    sent = replicas[1].http.post("azure/python3/files/upload", files={"file": ("in.txt", b"three")}, **named)
    assert sent.status_code == 200, sent.text
    assert ran(0, "one", "open('in.txt').read()")["result"] == "three"
    assert replicas[1].http.get("azure/python3/files/content/in.txt", **named).content == b"three"

    # First requests at the same time, at both.
    with ThreadPoolExecutor(4) as threads:
        values = list(threads.map(lambda number: ran(number % 2, "two", "import os; os.getpid()")["result"], range(4)))
    assert len(set(values)) == 1, values
    for identifier in ("one", "two"):
        gone = replicas[1].http.delete("azure/python3/session", params={**named["params"], "identifier": identifier})
        assert gone.status_code == 200, gone.text
    assert replicas[0].http.get("v1/sessions").json()["sessions"] == []


def test_a_container_of_openai_is_reached_from_everywhere(replicas):
    made = replicas[0].http.post("openai/v1/containers", json={"name": "one"})
    assert made.status_code == 200, made.text
    container, near = made.json()["id"], replicas[1].http
    assert near.get(f"openai/v1/containers/{container}").json()["name"] == "one"
    files = f"openai/v1/containers/{container}/files"
    put = near.post(files, files={"file": ("in.bin", bytes(range(256)))}).json()
    assert "/mnt/data/in.bin" in [one["path"] for one in near.get(files, params={"limit": 100}).json()["data"]]
    assert replicas[0].http.get(f"{files}/{put['id']}/content").content == bytes(range(256))
    assert near.get(f"{files}/{put['id']}/content").content == bytes(range(256))
    assert near.delete(f"openai/v1/containers/{container}").json()["deleted"] is True
    assert near.get(f"openai/v1/containers/{container}").status_code == 404


def test_a_dead_owner_is_said(tmp_path, postgres, kernel_python, monkeypatch):
    replicas = Replicas(tmp_path, postgres, 2, *FACADES, lease="30s", relay=True)
    try:
        for name, value in variables(replicas[0]).items():
            monkeypatch.setenv(name, value)
        made = Sandbox.create(timeout=600)
        for name, value in variables(replicas[1]).items():
            monkeypatch.setenv(name, value)
        sandbox = Sandbox.connect(made.sandbox_id, timeout=600)
        replicas[0].kill()
        for refused in (Sandbox.list().next_items, lambda: sandbox.get_info(retries=0)):
            with pytest.raises(e2b.ServiceBusyException, match="503.*repl"):
                refused()
        replicas[0].start()
        eventually(lambda: sandbox.run_code("6 * 7").text == "42", "the owner answers", 60)
        assert sandbox.kill()
    finally:
        replicas.stop()
