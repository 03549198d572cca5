"""Late binding: an idle kernel gets its session's environment and directory, and shows no sign of it."""

import pytest
from rawkernel import RawKernel


@pytest.fixture(scope="module")
def bound(kernel_python):
    kernel = RawKernel(kernel_python, env={"OLD": "1", "HIMALIA_PRELOAD": "json,matplotlib.pyplot,no_such_module"})
    yield kernel
    kernel.close()


def bind(kernel, **content):
    return kernel.request("himalia_bind_request", content, "control")


def test_preloaded_modules_are_there_and_a_missing_one_is_reported(bound):
    code = "import sys; print('matplotlib.pyplot' in sys.modules, 'matplotlib_inline.backend_inline' in sys.modules)"
    assert bound.run(code)[1] == "True True\n"
    assert "no_such_module was not preloaded: ModuleNotFoundError" in bound.stderr()
    assert len(bound.stderr().splitlines()) == 1
    messages = bound.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")[2]
    assert any("image/png" in message["content"].get("data", {}) for message in messages)


def test_everything_is_applied_and_no_trace_is_left(bound, tmp_path):
    (tmp_path / "beside.py").write_text("here = True")
    before = bound.run("import os, sys, time, tempfile; tempfile.gettempdir(); print(sys.path)")
    while bound.iopub.poll(200):
        bound.receive("iopub")
    content = {
        "env": {"NEW": "ü", "TZ": "Etc/GMT-5", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        "unset": ["OLD", "NEVER_SET"],
        "cwd": str(tmp_path),
        "kernel_id": "the-session",
    }
    assert bind(bound, **content) == {"status": "ok"}
    msg_id = bound.execute("print(sys.path)")
    messages = []
    while not messages or messages[-1]["content"].get("execution_state") != "idle":
        messages.append(bound.receive("iopub"))
    assert {m["parent_header"].get("msg_id") for m in messages} == {msg_id}, "the bind request showed"
    reply = bound.reply(msg_id)
    assert reply["execution_count"] == before[0]["execution_count"] + 1
    assert [m["content"]["text"] for m in messages if m["msg_type"] == "stream"] == [before[1]]
    code = "print(os.getcwd(), os.environ['NEW'], 'OLD' in os.environ, time.timezone, tempfile.gettempdir())"
    assert bound.run(code)[1] == f"{tmp_path} ü False -18000 {tmp_path}\n"
    assert bound.run("import beside; print(beside.here, get_ipython().home_dir)")[1] == f"True {tmp_path}\n"
    assert bound.run("%dhist")[1].endswith(f"0: {tmp_path}\n")
    assert bound.run("%history -n")[1].count("bind") == 0


def test_a_directory_that_is_not_there_changes_nothing(bound):
    reply = bind(bound, env={"HALF": "1"}, cwd="/does/not/exist")
    assert (reply["status"], reply["ename"]) == ("error", "FileNotFoundError")
    assert bound.run("print('HALF' in os.environ)")[1] == "False\n"


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"env": {"A=B": "1"}}, "env"),
        ({"env": {"A": "\0"}}, "env"),
        ({"env": ["A"]}, "env"),
        ({"unset": [""]}, "unset"),
        ({"cwd": ["/"]}, "cwd"),
        ({"kernel_id": 5}, "kernel_id"),
    ],
)
def test_a_bad_request_is_refused_by_field(bound, content, field):
    reply = bind(bound, **content)
    assert reply["ename"] == "ValueError" and reply["evalue"].startswith(field)


@pytest.mark.parametrize("code", ["time.sleep(60)", "import asyncio; await asyncio.sleep(60)"])
def test_a_running_cell_is_never_disturbed(bound, code):
    msg_id = bound.execute(f"print('begun', flush=True)\n{code}")
    for message in bound.outputs(msg_id):
        if message["msg_type"] == "stream":
            break
    reply = bind(bound, env={"WHILE_BUSY": "1"})
    assert (reply["status"], reply["ename"]) == ("error", "KernelBusy")
    bound.interrupt()
    assert bound.reply(msg_id)["status"] == "error"
    # For a moment after an error, ipykernel aborts what comes in.
    while (seen := bound.run("print('WHILE_BUSY' in os.environ)"))[0]["status"] == "aborted":
        pass
    assert seen[1] == "False\n"
