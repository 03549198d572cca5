"""A branch has all of its parent's state, and nothing that one of them does reaches the other."""

import json
import os
import signal
import threading

import pytest
from branching import Family, request_fork
from processes import alive
from waiting import eventually

SETUP = """
import asyncio, logging, os, random, subprocess, sys, tempfile, threading, time
import numpy as np, pandas as pd
import matplotlib.pyplot as plt
from pathlib import Path
big = np.ones(1_000_000); df = pd.DataFrame({"a": [1, 2, 3]}); x = 1
random.seed(1); np.random.seed(1)
log = logging.getLogger("user"); log.addHandler(logging.StreamHandler(sys.stdout)); log.setLevel(10)
file = open(tempfile.mktemp(dir="."), "w+"); file.write("common,")
folder = tempfile.TemporaryDirectory()
async def tick():
    global n
    n = 0
    while True:
        n += 1
        await asyncio.sleep(0.01)
task = asyncio.get_running_loop().create_task(tick())
reader_end = None
accepted = []  # a writer without a reference closes its connection, from Python 3.13 on
async def connected():
    server = await asyncio.start_server(lambda r, w: accepted.append(w), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async def read():
        global reader_end
        reader_end = await reader.read()
    datagrams = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    return asyncio.get_running_loop().create_task(read()), server, writer, datagrams
kept = await connected()
x
"""


@pytest.fixture(scope="module")
def family(kernel_python):
    with Family(kernel_python) as family:
        assert family.kernel.run(SETUP)[0]["status"] == "ok"
        family.branch = family.fork()
        yield family


@pytest.fixture
def parent(family):
    return family.kernel


@pytest.fixture
def branch(family):
    return family.branch


def value(kernel, expression):
    """The printed value of an expression."""
    reply, out, _ = kernel.run(f"print({expression})")
    assert reply["status"] == "ok", reply
    return out.strip()


def test_the_reply_names_the_branch_and_what_it_took(family, branch):
    assert branch.forked["pid"] == int(value(branch, "os.getpid()"))
    assert branch.forked["hazards"] == []
    assert set(branch.forked["ms"]) == {"wait", "prepare", "fork", "settle", "ready"}


def test_variables_are_there_and_go_apart(parent, branch):
    branch.run("x = 100; df['z'] = 7; big[0] = 5")
    parent.run("x = 200")
    assert value(parent, "x, 'z' in df, big[0]") == "200 False 1.0"
    assert value(branch, "x, 'z' in df, big[0]") == "100 True 5.0"


def test_inputs_outputs_and_the_execution_count_are_kept(parent, branch):
    assert value(branch, "In[1].split()[0], Out[1]") == "import 1"
    assert branch.run("1")[0]["execution_count"] > 1
    request = {"hist_access_type": "tail", "n": 100, "output": False, "raw": True}
    inputs = [entry[2] for entry in branch.request("history_request", request)["history"]]
    assert SETUP.strip() in inputs[0]
    branch.run("only_in_the_branch = 1")
    inputs = [entry[2] for entry in parent.request("history_request", request)["history"]]
    assert "only_in_the_branch = 1" not in inputs


def test_random_numbers_differ(parent, branch):
    expression = "random.random(), np.random.rand()"
    ours, theirs = value(parent, expression).split(), value(branch, expression).split()
    assert ours[0] != theirs[0] and ours[1] != theirs[1]


def test_output_of_subprocesses_and_of_c_code_stays_apart(parent, branch):
    for kernel, word in ((branch, "branch"), (parent, "parent"), (branch, "again")):
        msg_id = kernel.execute(f"os.system('echo {word}'); os.write(1, b'END')")
        out = ""
        while "END" not in out:
            message = kernel.receive("iopub")
            if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == msg_id:
                out += message["content"]["text"]
        assert out == f"{word}\nEND"


def test_a_handler_that_holds_the_old_stdout_works(parent, branch):
    assert branch.run("log.info('in the branch')")[1] == "in the branch\n"
    assert parent.run("log.info('in the parent')")[1] == "in the parent\n"


def test_plots_are_shown(branch):
    messages = branch.run("fig, ax = plt.subplots(); ax.plot([1, 3]); plt.show()")[2]
    assert any("image/png" in message["content"].get("data", {}) for message in messages)


def test_an_open_file_has_a_position_of_its_own_and_its_buffer_is_written_once(parent, branch):
    assert value(branch, "file.tell()") == "7"
    assert value(branch, "file.seek(0), file.read()") == "0 common,"
    assert value(parent, "file.tell()") == "7"


def test_tasks_of_the_user_go_on_in_both(parent, branch):
    for kernel in (parent, branch):
        code = "before = n\nwhile n < before + 5: await asyncio.sleep(0.01)\nprint('continued')"
        assert kernel.run(code)[1] == "continued\n"


def test_a_connection_of_the_parent_has_ended_in_the_branch_only(parent, branch):
    assert branch.run("while reader_end is None: await asyncio.sleep(0.01)\nprint(reader_end)")[1] == "b''\n"
    assert value(parent, "reader_end") == "None"


def test_sockets_that_were_cut_keep_no_loop_busy(branch):
    msg_id = branch.execute("await asyncio.sleep(0.1); spent = time.process_time(); await asyncio.sleep(0.5)\n"
                            "print(time.process_time() - spent < 0.25)")
    messages = [branch.receive("iopub")]
    while messages[-1]["content"].get("execution_state") != "idle" or messages[-1]["parent_header"]["msg_id"] != msg_id:
        messages.append(branch.receive("iopub"))
    printed = [(m["content"]["name"], m["content"]["text"]) for m in messages if m["msg_type"] == "stream"]
    assert printed == [("stdout", "True\n")]


def test_completion_inspection_and_async_cells_work(branch):
    assert "DataFrame" in str(branch.request("complete_request", {"code": "pd.DataFr", "cursor_pos": 9})["matches"])
    assert branch.request("inspect_request", {"code": "pd", "cursor_pos": 2, "detail_level": 0})["found"]
    assert branch.run("await asyncio.sleep(0.01); print('ok')")[1] == "ok\n"


def test_many_cells_at_once_do_not_mix(parent, branch):
    bad = []

    def run(kernel, word):
        for number in range(50):
            _, out, messages = kernel.run(f"print('{word}{number}'); '{word}{number}'")
            shown = [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == "execute_result"]
            if out != f"{word}{number}\n" or shown != [f"'{word}{number}'"]:
                bad.append((out, shown))

    threads = [threading.Thread(target=run, args=pair) for pair in ((parent, "p"), (branch, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []


@pytest.mark.parametrize("by", ["signal", "message"])
@pytest.mark.parametrize("whose", ["branch", "parent"])
def test_an_interrupt_reaches_one_kernel_only(parent, branch, whose, by):
    cells = {}
    for kernel in (parent, branch):
        # Both run while one is interrupted; the other must not notice.
        cells[kernel] = kernel.execute("print('begun', flush=True)\nwait = True\nwhile wait: time.sleep(0.01)")
        for message in kernel.outputs(cells[kernel]):
            if message["msg_type"] == "stream":
                break
    order = [branch, parent] if whose == "branch" else [parent, branch]
    for kernel in order:
        if by == "signal":
            kernel.interrupt()
        else:
            assert kernel.request("interrupt_request", {}, "control")["status"] == "ok"
        assert kernel.reply(cells[kernel])["ename"] == "KeyboardInterrupt"
        list(kernel.outputs(cells[kernel]))
        if kernel is order[0]:
            assert not order[1].shell.poll(100)


def test_an_error_does_not_stop_the_next_cell(branch):
    assert branch.run("1/0")[0]["ename"] == "ZeroDivisionError"
    assert branch.run("print(1)")[1] == "1\n"


def test_the_parent_has_no_child_to_wait_for(parent):
    assert parent.run("os.wait()")[0]["ename"] == "ChildProcessError"
    assert value(parent, "open(f'/proc/self/task/{os.getpid()}/children').read()") == ""


def test_the_request_leaves_no_trace(family, parent):
    count = parent.run("1")[0]["execution_count"]
    parent.send("kernel_info_request", {})
    while parent.iopub.poll(300):
        parent.receive("iopub")
    family.fork().close()
    assert parent.run("2")[0]["execution_count"] == count + 1
    seen = {m["parent_header"].get("msg_type") for m in iter(lambda: parent.receive("iopub") if parent.iopub.poll(0) else None, None)}
    assert "himalia_fork_request" not in seen


def test_a_directory_of_the_parent_outlives_the_branch(family, parent):
    branch = family.fork()
    assert branch.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
    eventually(lambda: not alive(branch.pid), "the branch ends")
    assert value(parent, "Path(folder.name).is_dir(), x") == "True 200"
    assert parent.stderr() == ""


def test_five_generations(family, branch):
    branch.run("x = 100")
    youngest = branch
    for _ in range(5):
        youngest = family.fork(youngest)
        youngest.run("x += 1")
    assert value(youngest, "x") == "105"
    assert value(branch, "x") == "100"
    assert youngest.run("plt.plot([1]); plt.show(); log.info('deep')")[1] == "deep\n"


def test_cwd_and_environment_of_the_branch(family, parent, tmp_path):
    branch = family.fork(cwd=str(tmp_path), env={"ONLY_HERE": "yes"})
    assert value(branch, "os.getcwd(), os.environ['ONLY_HERE']") == f"{tmp_path} yes"
    assert value(parent, "os.getcwd() == os.environ['HOME'], 'ONLY_HERE' in os.environ") == "True False"


def test_a_running_cell_is_waited_for_and_refused_after_that(family, parent):
    for code in ("while True: await asyncio.sleep(0.01)", "while True: time.sleep(0.01)"):
        msg_id = parent.execute(f"print('begun', flush=True)\n{code}")
        for message in parent.outputs(msg_id):
            if message["msg_type"] == "stream":
                break
        reply, _ = request_fork(parent, wait_ms=0)
        assert (reply["status"], reply["ename"]) == ("error", "KernelBusy")
        reply, _ = request_fork(parent, wait_ms=50)
        assert reply["ename"] == "KernelBusy"
        parent.interrupt()
        parent.reply(msg_id)
        list(parent.outputs(msg_id))
    msg_id = parent.execute("print('begun', flush=True); await asyncio.sleep(0.3); late = 1")
    for message in parent.outputs(msg_id):
        if message["msg_type"] == "stream":
            break
    late = family.fork()
    assert value(late, "late") == "1"
    parent.reply(msg_id)


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"connection_file": 7}, "connection_file"),
        ({"policy": "hope"}, "policy"),
        ({"wait_ms": -1}, "wait_ms"),
        ({"env": {"A": 1}}, "env"),
        ({"cwd": 3}, "cwd"),
    ],
)
def test_a_bad_request_is_refused_by_field(parent, content, field):
    reply, _ = request_fork(parent, **content)
    assert reply["ename"] == "ValueError" and reply["evalue"].startswith(field)


@pytest.mark.parametrize("content", [{"cwd": "/does/not/exist"}, {"connection_file": "/does/not/exist"}])
def test_a_branch_that_cannot_start_ends_and_harms_no_other(parent, content):
    before = value(parent, "x")
    reply, _ = request_fork(parent, **content)
    assert (reply["status"], reply["ename"]) == ("error", "BranchFailed")
    assert "FileNotFoundError" in reply["evalue"]
    assert value(parent, "x") == before
    assert parent.run("os.wait()")[0]["ename"] == "ChildProcessError"


def test_policy_strict_refuses_what_report_reports(family, parent):
    parent.run("child = subprocess.Popen(['sleep', '1000'])")
    try:
        reply, _ = request_fork(parent, policy="strict")
        assert reply["ename"] == "ForkHazard"
        assert [hazard["kind"] for hazard in reply["hazards"]] == ["child-process"]
        assert [hazard["severity"] for hazard in family.fork().forked["hazards"]] == ["warn"]
    finally:
        parent.run("child.kill(); child.wait()")


def test_a_stock_client_can_drive_a_branch(branch):
    from jupyter_client import BlockingKernelClient

    client = BlockingKernelClient()
    client.load_connection_info(json.loads(json.dumps(branch.info)))
    client.start_channels()
    try:
        client.wait_for_ready(timeout=30)
        reply = client.execute_interactive("print(x)", output_hook=lambda message: None, timeout=30)
        assert reply["content"]["status"] == "ok"
        assert client.hb_channel.is_beating()
    finally:
        client.stop_channels()


def test_where_a_trial_of_a_fork_fails_there_is_none(kernel_python):
    with Family(kernel_python) as family:
        family.kernel.run("from himalia_kernel.fork import executors; executors.revive = lambda loop, workers: None")
        reply, _ = request_fork(family.kernel)
        assert (reply["status"], reply["ename"]) == ("error", "Unsupported"), reply
        assert "in a forked process a thread pool did not work" in reply["evalue"]
        assert family.kernel.run("os = __import__('os'); os.wait()")[0]["ename"] == "ChildProcessError"


def test_branches_outlive_a_killed_parent_and_end_alone(kernel_python):
    with Family(kernel_python) as family:
        family.kernel.run("x = 7")
        first, second = family.fork(), family.fork()
        third = family.fork(first)
        family.kernel.process.send_signal(signal.SIGKILL)
        family.kernel.process.wait()
        assert [value(kernel, "x") for kernel in (first, second, third)] == ["7", "7", "7"]
        assert first.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
        eventually(lambda: not alive(first.pid), "the first branch ends")
        assert value(second, "x") == value(third, "x") == "7"
        assert family.kernel.stderr() == ""
        assert os.getpgid(second.pid) == second.pid
