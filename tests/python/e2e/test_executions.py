"""Executions over REST: a staged analysis, a gateway that is killed in the middle, connections that are cut anywhere."""

import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from waiting import eventually


@pytest.fixture
def session(gateway):
    """A session of the native API on a gateway of its own."""
    return gateway.start_session()


def run(gateway, session, code, **more):
    """Run code and return its result."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def begin(gateway, session, code, **more):
    """Run code in the background and return its path."""
    body = {"code": code, "background": True, **more}
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json=body)
    assert reply.status_code == 202, reply.text
    return reply.headers["location"].lstrip("/")


def show(gateway, path):
    """The result as of now."""
    reply = gateway.http.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json()


def whole_text(gateway, path):
    """All text of an execution, page by page."""
    text, cursor = "", 0
    while cursor is not None:
        page = show(gateway, f"{path}/output?cursor={cursor}&limit=5000")
        text, cursor = text + page["text"], page["next"]
    return text


def test_an_analysis_in_stages(gateway, session):
    loaded = run(gateway, session, "import pandas as pd\ndf = pd.DataFrame({'a': range(5), 'b': range(5)})\ndf.shape")
    assert loaded["status"] == "ok" and loaded["outputs"][0]["data"]["text/plain"] == "(5, 2)"
    for failed_before in range(2):
        wrong = run(gateway, session, "x = 1\ndf['c'].sum()")
        assert wrong["status"] == "error" and wrong["failed_before"] == failed_before
        assert wrong["error"]["name"] == "KeyError"
        assert wrong["error"]["frame"] == {"line": 2, "source": "df['c'].sum()"}
        assert "\x1b" not in json.dumps(wrong)
    right = run(gateway, session, "df['a'].sum()")
    assert "10" in right["outputs"][0]["data"]["text/plain"]
    assert right["kernel"] == {"incarnation": 1, "replaced": None}
    bar = (
        "import sys, time\n"
        "for n in range(101):\n"
        "    sys.stderr.write(f'\\r{n:3}%|' + '#' * (n // 10))\n"
        "    sys.stderr.flush()\n"
        "    if n % 50 == 0: print('step', n, flush=True)\n"
        "sys.stderr.write('\\n')\n"
    )
    assert run(gateway, session, bar)["text"] == "step 0\nstep 50\nstep 100\n100%|##########\n"
    plot = run(
        gateway,
        session,
        "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\n"
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
    )
    image = next(o["data"]["image/png"] for o in plot["outputs"] if "image/png" in o["data"])
    assert image["width"] > 100 and image["height"] > 100
    content = gateway.http.get(f"v1/artifacts/{image['artifact'].removeprefix('sha256:')}").content
    assert content.startswith(b"\x89PNG") and len(content) == image["bytes"]
    assert len(json.dumps(plot)) < 4000, "no picture in the result itself"


def test_a_question_is_answered_over_rest(gateway, session):
    path = begin(gateway, session, "name = input('who? ')\nprint('hello', name)", allow_stdin=True)
    eventually(lambda: show(gateway, path).get("input"), "it asks")
    asked = show(gateway, path)["input"]
    assert (asked["prompt"], asked["password"]) == ("who? ", False)
    assert gateway.http.post(f"{path}/input", json={"value": "Ada"}).status_code == 202
    eventually(lambda: show(gateway, path)["status"] == "ok", "it continues")
    assert show(gateway, path)["text"] == "hello Ada\n"
    refused = run(gateway, session, "input()")
    assert refused["error"]["name"] == "StdinNotImplementedError"


def test_a_timeout_keeps_the_variables(gateway, session):
    run(gateway, session, "kept = 42")
    late = run(gateway, session, "import time\ntime.sleep(600)", timeout_s=0.3)
    assert late["status"] == "timeout" and late["error"]["name"] == "KeyboardInterrupt"
    after = run(gateway, session, "kept", expect_incarnation=1)
    assert after["outputs"][0]["data"]["text/plain"] == "42"


def test_a_gateway_that_is_killed_in_the_middle_loses_nothing(gateway, session, tmp_path):
    gate = tmp_path / "gate"
    lines = 400
    code = (
        "import os, time\nruns = globals().get('runs', 0) + 1\n"
        f"for n in range({lines}):\n    print('line', n, flush=True)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\nprint('runs', runs)\n'done'"
    )
    path = begin(gateway, session, code)
    eventually(lambda: "line 10\n" in show(gateway, path)["text"], "it prints", 60)
    gateway.kill()
    gateway.start()
    assert show(gateway, path)["status"] == "running"
    gate.touch()
    eventually(lambda: show(gateway, path)["status"] == "ok", "it ends", 60)
    result = show(gateway, path)
    assert result["outputs"][0]["data"]["text/plain"] == "'done'" and "gaps" not in result
    expected = "".join(f"line {n}\n" for n in range(lines)) + "runs 1\n"
    assert whole_text(gateway, path) == expected
    assert run(gateway, session, "runs", expect_incarnation=1)["outputs"][0]["data"]["text/plain"] == "1"


def test_the_example_of_a_script_over_many_items_outlives_the_gateway(gateway, session):
    example = Path(__file__).parents[3] / "examples/background.py"
    argv = [sys.executable, "-u", example, str(gateway.http.base_url).rstrip("/"), gateway.token, session]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as script:
        try:
            shown = [script.stdout.readline(), script.stdout.readline()]
            gateway.kill()
            gateway.start()
            shown += script.stdout.read().splitlines(keepends=True)
        finally:
            script.kill()
    assert shown == [f"{n} of 1000\n" for n in range(50, 1001, 50)] + ["ok\n"]
    assert run(gateway, session, "len(results)")["outputs"][0]["data"]["text/plain"] == "1000"


def cut_anywhere(gateway, path, chance):
    """Read an execution's events over connections that are cut after random numbers of bytes; returns all events."""
    seen, last = [], 0
    while not (seen and seen[-1]["event"] == "done"):
        # The last event has the whole result in it.
        room = chance.choice([chance.randrange(200, 5000), 50_000])
        headers = {"Last-Event-ID": str(last), "Accept": "text/event-stream"}
        buffer = b""
        with gateway.http.stream("GET", f"{path}/events", headers=headers, timeout=60) as response:
            for chunk in response.iter_raw(64):
                buffer += chunk
                if len(buffer) > room:
                    break
        # What is not a whole event was not seen.
        for block in buffer.decode(errors="ignore").split("\n\n")[:-1]:
            data = [line[5:] for line in block.split("\n") if line.startswith("data:")]
            if data:
                event = json.loads(data[0])
                assert event["seq"] > last
                last = event["seq"]
                seen.append(event)
    return seen


def test_connections_that_are_cut_anywhere_see_all_of_it_once(gateway, session, tmp_path):
    go, seed = tmp_path / "go", random.randrange(1 << 32)
    # It ends only after one reader has stopped waiting for its end.
    lines = "import os, time\nfor n in range(300):\n    print('line', n, flush=True)\n    time.sleep(0.002)\n"
    path = begin(gateway, session, f"{lines}while not os.path.exists({str(go)!r}): time.sleep(0.02)\nprint('x' * 3000)")
    seen = {}

    def watch(number):
        seen[number] = cut_anywhere(gateway, path, random.Random(seed + number))

    watchers = [threading.Thread(target=watch, args=(number,)) for number in range(3)]
    for watcher in watchers:
        watcher.start()
    # One who waits and goes away interrupts nothing.
    with pytest.raises(httpx.ReadTimeout):
        gateway.http.get(f"{path}/events", timeout=0.2)
    go.touch()
    for watcher in watchers:
        watcher.join(120)
    expected = whole_text(gateway, path)
    assert expected == "".join(f"line {n}\n" for n in range(300)) + "x" * 3000 + "\n"
    for events in seen.values():
        assert "".join(event["text"] for event in events if event["event"] == "stdout") == expected, f"seed {seed}"
        assert events[-1]["result"]["status"] == "ok"
    assert len(seen) == 3
