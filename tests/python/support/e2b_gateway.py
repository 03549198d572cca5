"""A gateway for E2B's clients, and what points them at it. The fixtures are imported by the files that use them."""

import importlib.metadata
import json
import re
import subprocess
import sys
import threading

import pytest
from servers import Himalia
from waiting import eventually


@pytest.fixture(scope="module")
def served(tmp_path_factory, kernel_python):
    """A gateway with the API of E2B."""
    gateway = Himalia(tmp_path_factory.mktemp("e2b"), "--e2b")
    yield gateway
    gateway.stop()


def printed(gateway, *options):
    """What `himalia env e2b` prints."""
    command = [*gateway.command(), "env", "e2b", *options, "--url", gateway.url]
    command += ["--token-file", str(gateway.token_file)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def variables(gateway):
    """The variables by their names."""
    return json.loads(printed(gateway, "--json"))


@pytest.fixture
def pointed(served, monkeypatch):
    """The clients of this process use the gateway. No sandbox is left."""
    for name, value in variables(served).items():
        monkeypatch.setenv(name, value)
    yield served
    for session in served.http.get("v1/sessions").json()["sessions"]:
        served.delete_session(session["id"])


@pytest.fixture
def sandbox(pointed):
    """A sandbox with an interpreter, for at most two minutes."""
    from e2b_code_interpreter import Sandbox

    with Sandbox.create(timeout=120) as sandbox:
        yield sandbox


def example(package, heading):
    """The first example below a heading of a package's own documentation, word for word."""
    text = importlib.metadata.metadata(package).get_payload()
    section = text.split(heading, 1)[1]
    return re.search(r"```py\n(.*?)```", section, re.DOTALL)[1]


def run_example(gateway, code):
    """Run an example as a program of its own, with the variables that a shell has after `eval "$(himalia env e2b)"`."""
    script = 'eval "$1"; exec "$2" -c "$3"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", printed(gateway), sys.executable, code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_a_terminal(sandbox):
    """A terminal has the size that is asked for, also a new one, and ends with its shell."""
    from e2b import PtySize

    seen, ended = bytearray(), []
    terminal = sandbox.pty.create(PtySize(rows=30, cols=100))
    waiting = threading.Thread(target=lambda: ended.append(terminal.wait(on_pty=seen.extend)))
    waiting.start()
    sandbox.pty.send_stdin(terminal.pid, b"stty size; tty\n")
    eventually(lambda: b"30 100" in seen and b"/dev/pts/" in seen, lambda: seen, 30)
    sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    sandbox.pty.send_stdin(terminal.pid, b"stty size\n")
    eventually(lambda: b"40 120" in seen, lambda: seen, 30)
    sandbox.pty.send_stdin(terminal.pid, b"exit 0\n")
    waiting.join(30)
    assert [one.exit_code for one in ended] == [0]
