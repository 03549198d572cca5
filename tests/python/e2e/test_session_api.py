"""Sessions over REST beside executions: variables, completion, history, notebooks, names."""

import io
import json
import re
import subprocess
import threading

import httpx
import nbformat
import pytest
from channels import Channels
from servers import Himalia
from waiting import eventually

ARROW = "application/vnd.apache.arrow.stream"


def run(server, session, code, **more):
    """Run code and return its result."""
    reply = server.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def get(server, path, status=200, **params):
    """The JSON of a GET."""
    reply = server.http.get(path, params=params)
    assert reply.status_code == status, reply.text
    return reply.json()


def problem(reply):
    """Status, code and whether it is worth another try."""
    assert reply.headers["content-type"] == "application/problem+json"
    return reply.status_code, reply.json()["code"], reply.json()["retryable"]


def test_variables_are_shown_also_while_code_runs(shared, session):
    run(
        shared,
        session,
        "import pandas as pd\ndf = pd.DataFrame({'region': ['n', 's', 'n', 'w'], 'price': [3, 1, 2, 9]})\nx = [1, 2, 3]",
    )
    before = get(shared, f"v1/sessions/{session}")
    path = f"v1/sessions/{session}/variables"
    listed = get(shared, path)
    rows = {row["name"]: row for row in listed["variables"]}
    assert rows["df"]["shape"] == [4, 2] and rows["x"]["length"] == 3 and listed["incarnation"] == 1
    wanted = json.dumps({"column": "region", "op": "==", "value": "n"})
    page = get(shared, f"{path}/df", sort="price", descending="true", filter=wanted, limit=1)
    assert page["page"]["rows"] == [["n", 3]] and (page["page"]["matched"], page["page"]["total"]) == (2, 4)
    assert get(shared, f"{path}/x", offset=1, limit=1)["page"]["rows"] == [[2]]
    after = get(shared, f"v1/sessions/{session}")
    assert after["last_activity"] == before["last_activity"], "looking is no activity"

    for params, name, expected in [
        ({}, "nothing", (404, "variable_not_found", False)),
        ({"sort": "nowhere"}, "df", (400, "bad_request", False)),
        ({"limit": "5000"}, "df", (400, "bad_request", False)),
        ({"lmit": "5"}, "df", (400, "bad_request", False)),
        ({"sort": "a"}, "x", (501, "unsupported", False)),
        ({"format": "arrow"}, "x", (501, "unsupported", False)),
    ]:
        reply = shared.http.get(f"{path}/{name}", params=params)
        assert problem(reply) == expected, reply.text
    assert shared.http.get(f"{path}/df", params={"sort": "nowhere"}).json()["field"] == "sort"
    assert shared.http.get(f"{path}/df", params={"limit": 5000}).json()["field"] == "limit"

    begun = run(shared, session, "import time\nstop = False\nwhile True: time.sleep(0.05)", background=True)
    eventually(lambda: get(shared, f"v1/executions/{begun['id']}")["status"] == "running", "it runs")
    assert "df" in {row["name"] for row in get(shared, path)["variables"]}
    assert shared.http.post(f"v1/sessions/{session}/interrupt").status_code == 204
    eventually(lambda: get(shared, f"v1/executions/{begun['id']}")["status"] == "interrupted", "it stops")


def test_a_table_as_arrow(shared, session, kernel_python):
    run(shared, session, "import pandas as pd\ndf = pd.DataFrame({'a': range(10)})")
    path = f"v1/sessions/{session}/variables/df"
    for asked in ({"params": {"format": "arrow", "limit": 4}}, {"params": {"limit": 4}, "headers": {"Accept": ARROW}}):
        reply = shared.http.get(path, **asked)
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == ARROW
        assert (reply.headers["x-himalia-total"], reply.headers["x-himalia-matched"]) == ("10", "10")
        code = "import sys, pyarrow.ipc as i; print(i.open_stream(sys.stdin.buffer).read_all()['a'].to_pylist())"
        read = subprocess.run([kernel_python, "-c", code], input=reply.content, capture_output=True, check=True)
        assert read.stdout.split() == b"[0, 1, 2, 3]".split()


def test_questions_are_not_seen_by_clients(shared, session):
    run(shared, session, "y = 1")
    with Channels(shared, session) as client:
        get(shared, f"v1/sessions/{session}/variables")
        done = shared.http.post(f"v1/sessions/{session}/complete", json={"code": "y.bit_le"})
        assert done.status_code == 200, done.text
        assert any(match.endswith("bit_length") for match in done.json()["matches"])
        # Whatever the questions had caused would stand before this.
        seen = []
        mark = client.send("kernel_info_request", {})
        client.outcome(mark, on_message=seen.append)
        assert {(message["parent_header"] or {}).get("msg_id") for message in seen} == {mark}
    texts = [row["preview"] for row in get(shared, f"v1/sessions/{session}/variables")["variables"]]
    assert texts == ["1"]


def test_a_kernel_that_cannot_tell_says_so(tmp_path, kernel_python):
    specs = tmp_path / "specs" / "plain"
    specs.mkdir(parents=True)
    argv = [str(kernel_python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Plain", "language": "python"}
    (specs / "kernel.json").write_text(json.dumps(spec))
    gateway = Himalia(tmp_path / "gateway", "--kernelspec-dir", str(specs.parent))
    try:
        reply = gateway.http.post("v1/sessions", json={"template": "plain"})
        assert reply.status_code == 201, reply.text
        session = reply.json()["id"]
        run(gateway, session, "1")
        assert problem(gateway.http.get(f"v1/sessions/{session}/variables")) == (501, "unsupported", False)

        def completed():
            done = gateway.http.post(f"v1/sessions/{session}/complete", json={"code": "impor"})
            # ipykernel loads jedi for its first completion: on a busy machine that can take longer than an answer is waited for.
            return done.json() if done.status_code != 503 else None

        assert "import" in eventually(completed, "it completes", 60)["matches"]
    finally:
        gateway.stop()


def test_completion_and_inspection(shared, session):
    run(shared, session, "def area(radius):\n    'The area of a circle.'\n    return 3 * radius")
    path = f"v1/sessions/{session}"
    done = shared.http.post(f"{path}/complete", json={"code": "x = are", "cursor_pos": 7}).json()
    assert "area" in done["matches"] and (done["cursor_start"], done["cursor_end"]) == (4, 7)
    seen = shared.http.post(f"{path}/inspect", json={"code": "area", "detail_level": 1}).json()
    assert seen["found"] and "The area of a circle." in seen["data"]["text/plain"]
    assert shared.http.post(f"{path}/inspect", json={"code": "nowhere_at_all"}).json()["found"] is False
    for body, field in [
        ({}, "code"),
        ({"code": "x", "cursor_pos": 2}, "cursor_pos"),
        ({"code": "x", "cursor": 1}, "cursor"),
    ]:
        reply = shared.http.post(f"{path}/complete", json=body)
        assert problem(reply) == (400, "bad_request", False) and reply.json()["field"] == field
    begun = run(shared, session, "import time\nwhile True: time.sleep(0.05)", background=True)
    eventually(lambda: get(shared, f"v1/executions/{begun['id']}")["status"] == "running", "it runs")
    reply = shared.http.post(f"{path}/complete", json={"code": "x"})
    assert problem(reply) == (503, "busy", True)
    shared.http.post(f"{path}/interrupt")


def test_history_and_notebook_of_both_kinds_of_clients(gateway):
    session = gateway.http.put("v1/sessions/book", json={"template": "python3"}).json()["id"]
    plot = (
        "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\n"
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nprint('drawn')"
    )
    run(gateway, "book", plot)
    with Channels(gateway, session) as client:
        client.run("import sys\nprint('from a notebook')\nprint('oh', file=sys.stderr)\n41 + 1")
    assert run(gateway, "book", "1/0")["status"] == "error"
    bar = "import sys\nfor n in range(50): sys.stdout.write(f'\\r{n}')\nprint()"
    run(gateway, "book", bar)

    history = get(gateway, "v1/sessions/book/history")
    told = [(one["execution_count"], one["status"], one["id"] is None) for one in history["history"]]
    assert told == [(1, "ok", False), (2, "ok", True), (3, "error", False), (4, "ok", False)]
    latest = get(gateway, "v1/sessions/book/history", limit=1)
    assert latest["history"] == history["history"][3:]

    reply = gateway.http.get("v1/sessions/book/notebook.ipynb")
    assert reply.headers["content-type"] == "application/x-ipynb+json"
    book = nbformat.read(io.StringIO(reply.text), as_version=4)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert [cell.execution_count for cell in book.cells] == [1, 2, 3, 4]
    assert len({cell.id for cell in book.cells}) == 4
    image = next(output for output in book.cells[0].outputs if "image/png" in output.get("data", {}))
    assert len(image.data["image/png"]) > 1000
    second = [(output.output_type, output.get("name")) for output in book.cells[1].outputs]
    assert sorted(second, key=str) == [("execute_result", None), ("stream", "stderr"), ("stream", "stdout")]
    assert book.cells[2].outputs[0].ename == "ZeroDivisionError"
    assert book.cells[3].outputs[0].text == "49\n"

    script = gateway.http.get("v1/sessions/book/script.py").text
    compile(script, "script.py", "exec")
    assert "# %% [3] error\n# 1/0\n" in script and "print('from a notebook')" in script

    # The log is the source: the next gateway tells the same.
    gateway.kill()
    gateway.start()
    again = eventually(lambda: gateway.http.get("v1/sessions/book/notebook.ipynb").text, "a notebook")
    assert json.loads(again)["cells"] == json.loads(reply.text)["cells"]


def test_names_are_idempotent_and_survive(gateway):
    replies = []

    def put():
        # Clients of their own, at once.
        headers = {"Authorization": f"token {gateway.token}"}
        replies.append(
            httpx.put(f"{gateway.url}v1/sessions/eda", json={"labels": {"team": "a"}}, headers=headers, timeout=60)
        )

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reply.status_code for reply in replies) == [200, 200, 200, 201]
    assert len({reply.json()["id"] for reply in replies}) == 1
    made = next(reply for reply in replies if reply.status_code == 201)
    assert made.headers["location"].endswith("/v1/sessions/eda")
    session = made.json()["id"]
    run(gateway, "eda", "x = 7")

    for method, path, body, expected in [
        ("PUT", "v1/sessions/Eda", {}, (400, "bad_request", False)),
        ("PUT", f"v1/sessions/{session}", {}, (400, "bad_request", False)),
        ("PUT", "v1/sessions/eda", {"template": "other"}, (409, "conflict", False)),
        ("PUT", "v1/sessions/eda", {"name": "ade"}, (400, "bad_request", False)),
        ("PUT", "v1/sessions/new", {"nmae": 1}, (400, "bad_request", False)),
        ("POST", "v1/sessions", {"name": "eda"}, (409, "conflict", False)),
        ("PATCH", "v1/sessions/eda", {"label": {}}, (400, "bad_request", False)),
        ("PATCH", "v1/sessions/eda", {"labels": {"a": 1}}, (400, "bad_request", False)),
        ("PATCH", "v1/sessions/none", {}, (404, "session_not_found", False)),
        ("GET", "v1/sessions/none", None, (404, "session_not_found", False)),
    ]:
        reply = gateway.http.request(method, path, json=body)
        assert problem(reply) == expected, reply.text

    changed = gateway.http.patch(
        "v1/sessions/eda",
        json={"labels": {"team": None, "stage": "two"}, "idle_timeout_s": 3600, "lifetime_s": 7200},
    ).json()
    assert changed["labels"] == {"stage": "two"} and changed["idle_timeout_s"] == 3600 and changed["expires"]
    assert gateway.http.patch("v1/sessions/eda", json={"lifetime_s": None}).json()["expires"] is None
    other = gateway.http.post("v1/sessions", json={"labels": {"stage": "one"}}).json()["id"]

    def labelled(*labels):
        return [one["id"] for one in get(gateway, "v1/sessions", label=list(labels))["sessions"]]

    assert labelled("stage=two") == [session] and set(labelled("stage")) == {session, other}
    assert labelled("stage", "team") == []

    gateway.kill()
    gateway.start()
    shown = get(gateway, "v1/sessions/eda")
    assert (shown["id"], shown["name"]) == (session, "eda")
    assert shown["labels"] == {"stage": "two"} and shown["idle_timeout_s"] == 3600 and shown["expires"] is None
    assert gateway.http.put("v1/sessions/eda").status_code == 200
    assert run(gateway, "eda", "x")["outputs"][0]["data"]["text/plain"] == "7"

    restarted = gateway.http.post("v1/sessions/eda/restart")
    assert restarted.status_code == 200 and restarted.json()["incarnation"] == 2
    assert run(gateway, "eda", "x")["error"]["name"] == "NameError"

    # A name is free as soon as its session is gone.
    assert gateway.http.delete("v1/sessions/eda").status_code == 204
    assert gateway.http.get("v1/sessions/eda").status_code == 404
    fresh = gateway.http.put("v1/sessions/eda")
    assert fresh.status_code == 201 and fresh.json()["id"] != session


def test_a_jupyter_client_does_not_end_a_native_session(gateway):
    session = gateway.http.put("v1/sessions/kept").json()["id"]
    run(gateway, session, "x = 1")
    assert gateway.http.delete(f"api/kernels/{session}").status_code == 204
    bound = gateway.http.post(
        "api/sessions", json={"path": "a.ipynb", "type": "notebook", "name": "a", "kernel": {"id": session}}
    ).json()
    assert gateway.http.delete(f"api/sessions/{bound['id']}").status_code == 204
    assert run(gateway, "kept", "x")["kernel"]["incarnation"] == 1
    # What the Jupyter API made, it ends.
    kernel = gateway.start_kernel()
    assert gateway.http.delete(f"api/kernels/{kernel}").status_code == 204
    assert gateway.http.get(f"api/kernels/{kernel}").status_code == 404


def test_a_dead_kernel_has_no_variables(gateway):
    gateway.http.put("v1/sessions/dead")
    died = run(gateway, "dead", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert died["status"] in ("kernel_died", "oom_killed")
    reply = gateway.http.get("v1/sessions/dead/variables")
    assert problem(reply) == (409, "kernel_dead", False)


def test_names_in_a_shell(gateway):
    def himalia(*words):
        base = [*gateway.command(), "session", words[0], "--url", gateway.url, "--token-file", str(gateway.token_file)]
        return subprocess.run([*base, *words[1:]], capture_output=True, text=True)

    made = himalia("new", "lab", "--label", "team=a", "--idle-timeout", "10m")
    assert made.returncode == 0 and re.search(r"^lab\s+[0-9a-f-]{36}\s.*\spython3\s.*\steam=a$", made.stdout, re.MULTILINE), made
    assert himalia("new", "lab").returncode == 0
    listed = json.loads(himalia("ls", "--json", "--label", "team=a").stdout)["sessions"]
    assert [(one["name"], one["idle_timeout_s"]) for one in listed] == [("lab", 600)]
    assert json.loads(himalia("ls", "--json", "--label", "team=b").stdout)["sessions"] == []
    assert himalia("rm", "lab").returncode == 0
    assert himalia("rm", "lab").returncode == 1
    assert himalia("new", "Lab").returncode == 1
