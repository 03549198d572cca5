"""`%%bash` cells: streams, exit codes, interrupts, and what is left in the background."""

import os
import signal
import time

import pytest
from rawkernel import text_of


def bash(kernel, script, timeout=60.0):
    """Run a script; returns (reply content, stdout, stderr)."""
    reply, out, messages = kernel.run(f"%%bash\n{script}\n", timeout)
    return reply, out, text_of(messages, "stderr")


def test_streams_are_streams_and_nothing_is_read_from_stdin(kernel):
    reply, out, errors = bash(kernel, "echo out; echo err >&2; cat; printf 'año \\xff'; pwd")
    assert reply["status"] == "ok"
    assert out == f"out\naño \ufffd{os.path.realpath(kernel.directory.name)}\n" and errors == "err\n"
    assert kernel.run("%cd /tmp")[0]["status"] == "ok"
    assert bash(kernel, "pwd")[1] == "/tmp\n"
    assert bash(kernel, "")[0]["status"] == "ok"


def test_output_comes_while_it_runs(kernel):
    cell = kernel.execute("%%bash\necho begun; while [ ! -e gate ]; do sleep 0.05; done; echo ended\n")
    gate = os.path.join(kernel.directory.name, "gate")
    seen = ""
    for message in kernel.outputs(cell):
        if message["msg_type"] == "stream":
            seen += message["content"]["text"]
            if "begun" in seen:
                open(gate, "w").close()
    assert seen == "begun\nended\n" and kernel.reply(cell)["status"] == "ok"


@pytest.mark.parametrize(
    ("script", "told"),
    [("echo x; exit 3", "exit code 3"), ("kill -9 $$", "exit code 137 (SIGKILL)"), ("nothing_of_this_name", "exit code 127")],
)
def test_an_exit_code_is_an_error(kernel, script, told):
    cell = kernel.execute(f"%%bash\n{script}\n")
    list(kernel.outputs(cell))
    while (message := kernel.receive("shell"))["parent_header"]["msg_id"] != cell:
        pass
    reply = message["content"]
    assert (reply["status"], reply["ename"], reply["evalue"]) == ("error", "BashError", told)
    assert reply["traceback"] == [f"BashError: {told}"]
    noted = message["metadata"]["himalia"]
    assert noted["exit_code"] == int(told.split()[2]) and "error" not in noted


def test_a_long_script_and_much_output(kernel):
    reply, out, _ = bash(kernel, ": " + "x" * 300_000 + "\nseq 1 200000; exit 0", 120)
    assert reply["status"] == "ok" and out.splitlines() == [str(n) for n in range(1, 200_001)]
    assert kernel.peak_rss_mb() < 150


@pytest.mark.parametrize(
    "script",
    [
        "echo $$; sleep 1000",
        "echo $$; sleep 1000; echo not reached",
        "trap '' INT; echo $$; sleep 1000 & sleep 1000",
        "exec >/dev/null 2>&1; sleep 1000",
    ],
)
def test_an_interrupt_ends_the_whole_group(kernel, script):
    silent = script.startswith("exec")
    marker = os.path.join(kernel.directory.name, "pid")
    cell = kernel.execute(f"%%bash\necho $$ > pid\n{script}\n")
    end = time.monotonic() + 60
    while not (os.path.exists(marker) and open(marker).read().strip()):
        assert time.monotonic() < end
        time.sleep(0.01)
    group = int(open(marker).read())
    if not silent:
        for message in kernel.outputs(cell):
            if message["msg_type"] == "stream":
                break
    kernel.interrupt()
    reply = kernel.reply(cell, timeout=60)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert reply["traceback"] == ["KeyboardInterrupt"]
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
    # For a moment after an error, ipykernel aborts what comes in.
    while (after := kernel.run("1")[0])["status"] == "aborted":
        assert time.monotonic() < end
    assert after["status"] == "ok"


def test_what_is_left_in_the_background_goes_on(kernel):
    script = "while [ ! -e gate ]; do sleep 0.05; done && echo later & echo $! > pid; echo now"
    cell = kernel.execute(f"%%bash\n{script}\n")
    now = text_of(list(kernel.outputs(cell)))
    assert now == "now\n" and kernel.reply(cell)["status"] == "ok"
    open(os.path.join(kernel.directory.name, "gate"), "w").close()
    while (message := kernel.receive("iopub"))["msg_type"] != "stream":
        pass
    assert message["content"]["text"] == "later\n" and message["parent_header"]["msg_id"] == cell


def test_a_background_process_that_never_stops_printing_keeps_no_cell(kernel):
    reply, _, _ = bash(kernel, "yes > /dev/stderr & echo $! > pid")
    assert reply["status"] == "ok"
    os.kill(int(open(os.path.join(kernel.directory.name, "pid")).read()), signal.SIGKILL)
    assert kernel.run("1")[0]["status"] == "ok"


def test_ipythons_own_magic_is_there_for_its_options(kernel):
    reply, out, _ = kernel.run("%%bash --out text\necho captured\n")
    assert reply["status"] == "ok" and out == ""
    assert kernel.run("print(text)")[1] == "captured\n\n"
