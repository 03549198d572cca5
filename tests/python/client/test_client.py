"""What the Python client offers, on a real gateway and real kernels."""

import asyncio
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from himalia import (
    AsyncGateway,
    AuthenticationError,
    BadRequest,
    CodeError,
    ConfigurationError,
    ConnectionFailed,
    Gateway,
    InvalidResponse,
    NotFound,
    Session,
)
from waiting import eventually

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"


def test_variables_live_from_one_execution_to_the_next(session):
    session.execute("a = 20").check()
    result = session.execute("print('seen')\na + 1")
    assert (result.status, result.text, result.value, result.ended) == ("ok", "seen\n", "21", True)
    assert result.incarnation == 1 and result.replaced is None
    assert [variable.name for variable in session.variables()] == ["a"]
    assert session.variable("a")["variable"]["preview"] == "20"


def test_a_failure_of_the_code_is_a_result_and_with_check_an_exception(session):
    result = session.execute("x = 1\n1 / 0")
    assert (result.ok, result.error.name, result.error.line, result.error.source) == (False, "ZeroDivisionError", 2, "1 / 0")
    with pytest.raises(CodeError, match="ZeroDivisionError: division by zero") as caught:
        session.execute("1 / 0", check=True)
    assert caught.value.execution.status == "error" and caught.value.traceback


def test_code_that_ignores_interrupts_is_not_waited_for(session):
    code = "import time\nfor _ in range(300):\n  try: time.sleep(1)\n  except BaseException: pass"
    result = session.execute(code, timeout_s=1)
    assert (result.status, result.stuck["execution"]) == ("running", result.id)
    behind = session.execute("1", timeout_s=1)
    assert (behind.status, behind.stuck["execution"]) == ("queued", result.id)
    session.restart()
    assert session.execute("1 + 1").value == "2"


def test_a_plot_is_in_the_result(session, tmp_path):
    [image] = session.execute(PLOT, check=True).images
    image.save(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG") and image.width > 100
    assert session.artifact(image.artifact) == image.content
    [without] = session.execute(PLOT, image_bytes=0).images
    with pytest.raises(ValueError, match=without.artifact):
        without.save(tmp_path / "none.png")


def test_an_image_with_too_many_pixels_is_a_smaller_copy(session):
    code = "import matplotlib.pyplot as plt\nplt.figure(figsize=(30, 2), dpi=100)\nplt.plot([1, 2])\nplt.show()"
    [whole] = session.execute(code, image_bytes=4 << 20).images
    assert whole.width > 2000 and whole.content is not None
    [copy] = session.execute(code, image_bytes=4 << 20, image_pixels=2000).images
    assert copy.width <= 2000 and copy.content.startswith(b"\x89PNG") and copy.artifact != whole.artifact
    [none] = session.execute(code, image_bytes=4 << 20, image_pixels=100).images
    assert (none.content, none.width) == (None, whole.width)


def test_a_stream_has_each_event_once(session):
    events = list(session.stream("import sys\nfor i in range(3):\n    print(i)\nprint('to stderr', file=sys.stderr)\n'value'"))
    printed = "".join(event.text for event in events if event.event == "stdout")
    assert printed == "0\n1\n2\n" and events[-1].event == "done" and events[-1].execution.value == "'value'"
    assert [event.output.text for event in events if event.event == "result"] == ["'value'"]
    numbers = [event.seq for event in events if event.seq is not None]
    assert numbers == sorted(set(numbers))
    again = list(session.follow(events[-1].execution))
    assert [event.raw for event in again if event.event == "stdout"] == [event.raw for event in events if event.event == "stdout"]


def test_one_stream_has_all_executions_of_a_session(session):
    first = session.execute("print('one')")
    second = session.execute("1 / 0")
    seen = []
    for event in session.events(after=0):
        seen.append(event)
        if event.event == "done" and event.execution_id == second.id:
            break
    own = [event.event for event in seen if event.execution_id == first.id]
    assert own == ["queued", "started", "stdout", "done"]
    rest = session.events(after=seen[-2].seq)
    assert next(rest).execution.error.name == "ZeroDivisionError"
    rest.close()
    session.end()
    assert seen[-1].seq in [event.seq for event in session.events(after=0)], "the log of one that has ended, to its end"


def test_questions_are_answered(session):
    asked = []

    def answer(request):
        asked.append((request.prompt, request.password))
        return f"answer {len(asked)}"

    code = "import getpass\nfirst = input('first? ')\nsecond = getpass.getpass('second? ')\nprint(first, second)"
    result = session.execute(code, on_input=answer, check=True)
    assert asked == [("first? ", False), ("second? ", True)] and "answer 1 answer 2" in result.text


def test_a_wait_ends_before_the_code(session):
    result = session.execute("import time\nwhile True: time.sleep(0.01)", wait_s=0.2)
    assert not result.ended
    session.interrupt(result)
    assert session.wait(result).status == "interrupted"
    started = session.start("1 + 1")
    assert session.wait(started.id).value == "2"


def test_files_go_in_and_out(session, tmp_path):
    session.files.write("data/é #1.csv", "a,b\n1,2\n")
    assert session.execute("open('data/é #1.csv').read()").value == repr("a,b\n1,2\n")
    big = tmp_path / "big"
    big.write_bytes(os.urandom(3 << 20))
    session.files.upload(big)
    session.files.download("big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == big.read_bytes()
    entries = {entry.path: entry.kind for entry in session.files.list(depth=2)}
    assert entries["data"] == "directory" and entries["data/é #1.csv"] == "file" and entries["big"] == "file"
    session.files.delete("data", recursive=True)
    with pytest.raises(NotFound, match="file_not_found"):
        session.files.read("data/é #1.csv")
    assert not list(tmp_path.glob("*.part"))


def test_a_named_session_is_found_again(connected):
    with connected.session("again", labels={"team": "a"}) as session:
        session.execute("x = 7", check=True)
        assert connected.session("again").execute("x").value == "7"
        assert connected.attach("again").id == session.id
        assert [found.id for found in connected.sessions(labels={"team": "a"})] == [session.id]
    with pytest.raises(NotFound, match="session_not_found"):
        connected.attach("again")


def test_a_fork_has_the_variables_and_its_own_future(connected, session):
    session.execute("x = [1]", check=True)
    with session.fork() as branch:
        branch.execute("x.append(2)", check=True)
        assert (branch.execute("x").value, session.execute("x").value) == ("[1, 2]", "[1]")
    branches = session.forks(2, files="share")
    assert [branch.execute("x").value for branch in branches] == ["[1]", "[1]"]
    for branch in branches:
        branch.end()


def test_errors_name_what_is_wrong(connected, session):
    with pytest.raises(BadRequest) as caught:
        session.execute("1", no_such_member=True)
    assert "no_such_member" in caught.value.detail and caught.value.request_id
    with pytest.raises(NotFound, match="template_not_found"):
        connected.session(template="none-such")


def test_templates_and_usage_are_shown(connected):
    assert "python3" in [template.name for template in connected.templates()]
    assert connected.usage()["kernels"]["used"] >= 0


def test_the_same_for_asyncio(shared):
    async def both():
        async with AsyncGateway(shared.url, token_file=shared.token_file) as gateway, await gateway.session() as session:
            await session.execute("x = 1", check=True)
            seen = [event.text async for event in session.stream("print(x + 1)") if event.event == "stdout"]

            async def answer(request):
                return request.prompt.upper()

            asked = await session.execute("input('name ')", on_input=answer)
            await session.files.write("a.txt", "text")
            return seen, asked.value, await session.files.read("a.txt"), [variable.name for variable in await session.variables()]

    assert asyncio.run(both()) == (["2\n"], "'NAME '", b"text", ["x"])


def test_frames_arrive_as_pandas_with_their_index(shared, kernel_python):
    """In the Python that has pandas and pyarrow: that of the kernels."""
    code = """
import sys
from himalia import Gateway
with Gateway() as gateway, gateway.session() as session:
    made = "import pandas as pd; df = pd.DataFrame({'n': range(60_000), 't': [str(n % 7) for n in range(60_000)]}, index=pd.RangeIndex(5, 60_005, name='id'))"
    session.execute(made, check=True)
    frame = session.pandas("df")
    assert frame.shape == (60_000, 2) and frame.index.name == "id" and frame.n.tolist() == list(range(60_000)), frame
    some = session.pandas("df", filters=[{"column": "t", "op": "==", "value": "3"}], limit=10)
    assert some.shape == (10, 2) and set(some.t) == {"3"}, some
    assert session.arrow("df", limit=3).column_names == ["id", "n", "t"]
    made = '''
import numpy as np
base = pd.DataFrame({"a": ["x", "y", "x"], "v": [1, 5, 9.5], "p": pd.period_range("2024-01", periods=3, freq="M"),
    "t": pd.to_timedelta([1, 2, 3], unit="D"), "k": pd.cut(pd.Series([1, 5, 9]), [0, 3, 10])})
mixed = pd.DataFrame({"l": [[1, 2], [], None], "m": [[1, "a"], [2], [3]]})
cases = [base, base.groupby("k", observed=False).v.mean(), base.set_index("a").v, pd.Series([1, 2, 3]), pd.concat([base[["v"]]] * 2, axis=1),
    base.groupby("a")["a"].size().rename("a"), pd.DataFrame(np.arange(6).reshape(3, 2)), base.set_index(["a", "v"])[["p"]],
    base.pivot_table(index="a", values="v", aggfunc=["mean", "sum"]), base.v.iloc[::2], pd.DataFrame({"i": pd.interval_range(0, 3)}),
    pd.DataFrame(columns=["a", "b"])]
for number, case in enumerate(cases): globals()[f"case_{number}"] = case
'''
    session.execute(made, check=True)
    import pandas as pd
    exec("import pandas as pd\\n" + made)
    for number, case in enumerate(cases):
        same = pd.testing.assert_series_equal if isinstance(case, pd.Series) else pd.testing.assert_frame_equal
        same(session.pandas(f"case_{number}"), case, check_freq=False)
    lists = session.pandas("mixed")
    assert [value if value is None else list(value) for value in lists.l] == [[1, 2], [], None], lists
    assert lists.m.tolist() == ["[1, 'a']", "[2]", "[3]"], lists
print("all right")
"""
    path = [str(Path(__file__).parents[3] / "clients" / "python"), str(Path(httpx.__file__).parents[1])]
    # Packages of the kernels' Python come first.
    code = f"import sys\nsys.path += {path!r}\n{code}"
    env = {**os.environ, "HIMALIA_URL": shared.url, "HIMALIA_TOKEN_FILE": str(shared.token_file)}
    done = subprocess.run([kernel_python, "-c", code], env=env, capture_output=True, text=True, timeout=100)
    assert done.stdout == "all right\n", done.stderr


def test_a_client_continues_after_a_restart_of_the_gateway(tmp_path, kernel_python):
    from servers import Himalia

    own = Himalia(tmp_path / "own")
    try:
        with Gateway(own.url, token_file=own.token_file) as gateway:
            session = gateway.session("lasting")
            code = "import time, os\nfor i in range(200):\n    print(i, flush=True)\n    while i == 20 and not os.path.exists('go'): time.sleep(0.01)"
            printed = ""
            for event in session.stream(code):
                printed += event.text if event.event == "stdout" else ""
                if printed.endswith("20\n"):
                    own.process.kill()
                    own.process.wait()
                    own.start()
                    session.files.write("go", b"")
            assert printed == "".join(f"{i}\n" for i in range(200))
            session.end()
    finally:
        own.stop()


def test_the_token_is_in_no_traceback_and_no_log(shared, tmp_path):
    """With the values of all variables of all frames, and with the logs of the HTTP libraries at their finest level."""
    code = """
import logging, os, socketserver, sys, threading, traceback
from himalia import ConfigurationError, Gateway, HimaliaError
logging.basicConfig(level=1, stream=sys.stdout)
def tried(url, run):
    gateway = Gateway(url, token=open(os.environ["HIMALIA_TOKEN_FILE"]).read())
    inside = vars(gateway)["_transport"]
    print(repr(gateway), vars(gateway), vars(inside), vars(vars(inside)["_auth"]))
    try:
        run(gateway)
    except HimaliaError as error:
        for part in (error, error.__cause__, error.__context__):
            if part is not None:
                print("".join(traceback.TracebackException.from_exception(part, capture_locals=True).format()))
    else:
        raise SystemExit("nothing was raised")
class Closes(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(65536)
server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Closes)
threading.Thread(target=server.serve_forever, daemon=True).start()
closes = f"http://127.0.0.1:{server.server_address[1]}"
tried(closes, lambda gateway: gateway.usage())
tried(closes, lambda gateway: list(gateway.session("x").follow("exe_1")))
tried(sys.argv[1], lambda gateway: gateway.attach("none-such"))
tried("http://127.0.0.1:9", lambda gateway: gateway.session())
try:
    Gateway(token=open(os.environ["HIMALIA_TOKEN_FILE"]).read(), token_file="x")
except ConfigurationError as error:
    print("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
tried("http://127.0.0.1:9", lambda gateway: list(gateway.session("x").stream("1")))
# What no header can carry would be in the errors of the HTTP library.
token = open(os.environ["HIMALIA_TOKEN_FILE"]).read().strip()
for ending in ("\\n", "\\r\\nX-Other: y", "\\0", "\\u00e9"):
    try:
        Gateway(sys.argv[1], token=token + ending).usage()
    except HimaliaError as error:
        print("".join(traceback.TracebackException.from_exception(error).format()))
"""
    path = [str(Path(__file__).parents[3] / "clients" / "python")]
    env = {**os.environ, "HIMALIA_TOKEN_FILE": str(shared.token_file), "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, "-c", code, shared.url], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "session_not_found" in done.stdout and "ConnectionFailed" in done.stdout
    assert shared.token not in done.stdout + done.stderr


def test_which_gateway_is_meant(shared, tmp_path, monkeypatch):
    for name in ("HIMALIA_URL", "HIMALIA_TOKEN", "HIMALIA_TOKEN_FILE", "HIMALIA_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    with Gateway(data_dir=shared.directory / "data") as gateway:
        assert gateway.url == shared.url.rstrip("/") and gateway.usage()
    with pytest.raises(ConfigurationError, match="a token is needed for http://127.0.0.1:1"):
        Gateway("http://127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="himalia up"):
        Gateway(data_dir=tmp_path)
    with pytest.raises(AuthenticationError), Gateway(shared.url, token="wrong") as gateway:
        gateway.usage()
    # A file read as it is has an end of line.
    with Gateway(shared.url, token=f"{shared.token}\n", caller="Zoë") as gateway:
        assert gateway.usage()
    for token in ("", " ", "a b", "é", "a\r\nX: y"):
        with pytest.raises(ConfigurationError, match="the token is empty, or has characters"):
            Gateway(shared.url, token=token)
    for url in ("nonsense", "ftp://host", "http://", "http://host:port"):
        with pytest.raises(ConfigurationError, match="has to be like"):
            Gateway(url, token="x")
    for url in ("http://user:secret@host", "http://host/?token=secret", "http://host/#secret"):
        with pytest.raises(ConfigurationError, match="no user, query or fragment") as refused:
            Gateway(url, token="x")
        assert "secret" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="caller"):
        Gateway(shared.url, token="x", caller="a\nb")
    with pytest.raises(ConnectionFailed, match="ConnectError"), Gateway("http://127.0.0.1:9", token="x") as gateway:
        gateway.usage()


class _Foreign(http.server.BaseHTTPRequestHandler):
    """Answers everything as a page of a proxy does, and breaks off a file."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "100" if "/files/" in self.path else "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_):
        pass


def test_what_answers_in_the_place_of_a_gateway_is_a_typed_error(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Foreign)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Gateway(f"http://127.0.0.1:{server.server_address[1]}", token="x") as gateway:
            for call in (gateway.usage, gateway.templates, lambda: gateway.attach("x"), gateway.session):
                with pytest.raises(InvalidResponse, match="not from a gateway of Himalia"):
                    call()
            session = Session(gateway._transport, {"id": "x"})
            with pytest.raises(InvalidResponse, match="names no execution"):
                list(session.stream("1"))
            with pytest.raises(ConnectionFailed, match="the download of a broke off: RemoteProtocolError") as failed:
                session.files.download("a", tmp_path / "a")
            assert failed.value.__context__ is None and not list(tmp_path.iterdir())
    finally:
        server.shutdown()
        server.server_close()


def test_a_workflow_runs_and_asks_a_person(shared, connected):
    manifest = {
        "name": "double",
        "version": "1.0.0",
        "kind": "code",
        "description": "Doubles.",
        "inputs": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "outputs": {"type": "integer"},
    }
    files = {"main.py": {"text": "def main(n):\n    return 2 * n\n"}}
    assert shared.http.post("v1/skills", json={"manifest": manifest, "files": files}).status_code == 201
    definition = {
        "name": "ask-and-double",
        "version": "1.0.0",
        "description": "Asks, and doubles.",
        "inputs": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "steps": [
            {"id": "ask", "approval": {"text": "May it?"}},
            {"id": "double", "skill": {"name": "double"}, "after": ["ask"], "inputs": {"n": {"from": "inputs.n"}}},
        ],
        "outputs": {"twice": {"from": "steps.double.outputs"}},
    }
    assert connected.publish_workflow(definition)["digest"] == connected.publish_workflow(definition)["digest"]
    with pytest.raises(BadRequest, match="inputs"):
        connected.run_workflow("ask-and-double", {"n": "x"})
    with pytest.raises(BadRequest, match="callback"):
        connected.run_workflow("ask-and-double", {"n": 21}, callback="ftp://ledger.example.org")
    run = connected.run_workflow("ask-and-double", {"n": 21})
    eventually(lambda: connected.run(run["id"])["steps"][0]["status"] == "waiting", "it asks")
    connected.answer_step(run["id"], "ask", "approve")
    done = connected.run(run["id"], wait_s=100)
    assert (done["status"], done["outputs"]) == ("succeeded", {"twice": 42})
    assert [one["id"] for one in connected.runs(workflow="ask-and-double", status="succeeded")] == [run["id"]]
    assert connected.cancel_run(run["id"])["status"] == "succeeded"
