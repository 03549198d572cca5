"""The start: what is left out comes when it is needed, and an unknown ipykernel is started plainly."""

import json
import os
import signal
import subprocess
import sys

from rawkernel import PACKAGE, RawKernel


def test_nothing_is_written_to_the_process_streams(kernel):
    assert kernel.run("1 + 1")[0]["status"] == "ok"
    assert kernel.stderr() == ""
    assert kernel.stdout_path.read_text() == ""


def test_deferred_modules_are_not_loaded_at_start_and_work_when_used(kernel):
    code = """
import sys
print("debugpy" in sys.modules, "jupyter_client.manager" in sys.modules)
import jupyter_client
print(jupyter_client.KernelManager.__name__, "jupyter_client.manager" in sys.modules)
from jupyter_client import *
print(jupyter_client.__version__, AsyncKernelManager.__name__)
import ipykernel.debugger
print(ipykernel.debugger.DebugpyClient.__name__)
"""
    reply, out, _ = kernel.run(code)
    assert reply["status"] == "ok"
    lines = out.splitlines()
    assert lines[0] == "False False"
    assert lines[1] == "KernelManager True"
    assert lines[2].endswith("AsyncKernelManager")
    assert lines[3] == "DebugpyClient"


def test_kernel_info_names_the_debugger_and_subshells(kernel):
    info = kernel.request("kernel_info_request", {})
    assert info["implementation"] == "ipython"
    assert set(info["supported_features"]) == {"kernel subshells", "debugger"}


SLICES = """
import ctypes, os, struct
def slice_of(thread):
    number = {"x86_64": 315, "aarch64": 275}[os.uname().machine]
    attr = ctypes.create_string_buffer(56)
    assert ctypes.CDLL(None).syscall(number, thread, attr, 56, 0) == 0
    return struct.unpack("=IIQiIQQQII", attr.raw)[5]
"""
LONG = 100_000_000


def test_a_start_has_a_long_time_slice_and_a_kernel_the_default(kernel):
    code = f"""{SLICES}
from himalia_kernel import scheduling
print(slice_of(0))
scheduling.begin()
print(slice_of(0))
scheduling.end()
print(slice_of(0))
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=True)
    before, starting, after = map(int, done.stdout.split())
    # A version of Linux without slices of threads keeps what it has.
    assert starting in (before, LONG)
    assert after == before
    _, out, _ = kernel.run(f"{SLICES}\nprint({{slice_of(int(thread)) for thread in os.listdir('/proc/self/task')}} == {{{before}}})")
    assert out == "True\n"


def debug(kernel, number, command, **arguments):
    return kernel.request(
        "debug_request",
        {"type": "request", "seq": number, "command": command, "arguments": arguments},
        "control",
    )


def test_the_debugger_stops_at_a_breakpoint(kernel):
    assert debug(kernel, 1, "debugInfo")["body"]["isStarted"] is False
    assert debug(
        kernel,
        2,
        "initialize",
        clientID="t",
        adapterID="t",
        pathFormat="path",
        linesStartAt1=True,
        columnsStartAt1=True,
    )["success"]
    assert debug(kernel, 3, "attach")["success"]
    code = "a = 1\nb = a + 1\nprint(b)"
    source = debug(kernel, 4, "dumpCell", code=code)["body"]["sourcePath"]
    set_reply = debug(
        kernel, 5, "setBreakpoints", source={"path": source}, breakpoints=[{"line": 2}], lines=[2], sourceModified=False
    )
    assert set_reply["body"]["breakpoints"][0]["verified"]
    assert debug(kernel, 6, "configurationDone")["success"]
    msg_id = kernel.execute(code)
    while True:
        message = kernel.receive("iopub")
        if message["msg_type"] == "debug_event" and message["content"]["event"] == "stopped":
            thread = message["content"]["body"]["threadId"]
            break
    frames = debug(kernel, 7, "stackTrace", threadId=thread)["body"]["stackFrames"]
    assert frames[0]["line"] == 2
    assert debug(kernel, 8, "continue", threadId=thread)["success"]
    assert kernel.reply(msg_id)["status"] == "ok"
    assert debug(kernel, 9, "disconnect", restart=False, terminateDebuggee=False)["success"]


def test_history_is_kept_in_memory(kernel):
    kernel.run("first = 1")
    kernel.run("second = 2")
    request = {"hist_access_type": "tail", "n": 10, "output": False, "raw": True}
    inputs = [entry[2] for entry in kernel.request("history_request", request)["history"]]
    assert inputs == ["first = 1", "second = 2"]
    code = "import pathlib; print([str(p) for p in pathlib.Path.home().rglob('*.sqlite*')])"
    assert kernel.run(code)[1] == "[]\n"


def test_without_a_parent_pid_the_kernel_outlives_who_started_it(kernel_python):
    """A starter that dies leaves the kernel running."""
    starter = (
        "import subprocess as s, sys\n"
        "p = s.Popen(sys.argv[1:], stdin=s.DEVNULL, stdout=s.DEVNULL, start_new_session=True)\n"
        "print(p.pid)\n"
    )
    kernel = RawKernel(sys.executable, argv=("-c", starter, str(kernel_python), "-m", "himalia_kernel"))
    try:
        kernel.process.wait(10)
        pid = int(kernel.stdout_path.read_text())
        assert kernel.run("import os; print(os.getpid(), os.getppid())")[1].split()[0] == str(pid)
        os.kill(pid, signal.SIGKILL)
    finally:
        kernel.close()


def test_a_module_in_the_working_directory_does_not_break_the_start(kernel_python, tmp_path):
    kernel = RawKernel(kernel_python, before=lambda d: (d / "traitlets.py").write_text("raise SystemExit(1)"))
    try:
        assert kernel.run("import os; print(os.path.exists('traitlets.py'))")[1] == "True\n"
    finally:
        kernel.close()


def test_no_module_in_the_working_directory_keeps_a_kernel_from_starting(kernel_python, kernel):
    """Whatever a start imports, our own package and what Python reads by itself included."""
    assert kernel.request("complete_request", {"code": "pri", "cursor_pos": 3})["matches"]
    loaded = kernel.run("import sys; print(*{name.partition('.')[0] for name in sys.modules})")[1].split()
    names = {*loaded, "himalia_kernel", "ipykernel_launcher", "runpy", "sitecustomize", "usercustomize"} - {"__main__", "__mp_main__"}
    assert len(names) > 150 and {"ipykernel", "IPython", "tornado", "zmq", "json"} <= names

    def shadow(directory):
        for name in names:
            (directory / f"{name}.py").write_text("import os; os._exit(13)")
        (directory / "early.pth").write_text("import os; os._exit(13)\n")
        (directory / "mine.py").write_text("answer = 42")

    argv = json.loads((PACKAGE / "kernel.json").read_text())["argv"][1:-2]
    shadowed = RawKernel(kernel_python, argv=argv, before=shadow)
    try:
        assert shadowed.run("import mine; print(mine.answer)")[1] == "42\n"
        assert shadowed.run("import sys; print(sys.path.index(''))")[1] == kernel.run("print(sys.path.index(''))")[1]
    finally:
        shadowed.close()


def test_an_unknown_ipykernel_is_started_plainly_and_says_so(kernel_python, tmp_path):
    site = tmp_path / "sitecustomize.py"
    site.write_text("import himalia_kernel.selftest as s\ns.TESTED = ((1, 2),)\n")
    kernel = RawKernel(kernel_python, env={"PYTHONPATH": f"{tmp_path}:{PACKAGE}"})
    try:
        assert kernel.run("print(6 * 7)")[1] == "42\n"
        assert "plain ipykernel is started" in kernel.stderr()
        assert "not a version that was tested (these were: 1.2)" in kernel.stderr()
        assert "himalia" not in kernel.run("import sys; print(type(sys.stdout).__module__)")[1]
    finally:
        kernel.close()


def test_a_missing_private_name_is_named(kernel_python):
    code = (
        "from ipykernel.iostream import OutStream; del OutStream._schedule_flush\n"
        "from himalia_kernel import selftest; print(selftest.problem())"
    )
    done = subprocess.run(
        [str(kernel_python), "-c", code], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "ipykernel.iostream has no OutStream._schedule_flush\n"


def test_the_locked_ipykernel_is_one_that_was_tested(kernel_python):
    code = "from himalia_kernel import selftest; print(selftest.problem())"
    done = subprocess.run(
        [str(kernel_python), "-c", code], env={"PYTHONPATH": str(PACKAGE)}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "None\n"


def test_the_kernelspec_is_complete():
    spec = json.loads((PACKAGE / "kernel.json").read_text())
    assert spec["argv"][1:] == ["-P", "-m", "himalia_kernel", "-f", "{connection_file}"]
    assert spec["interrupt_mode"] == "signal"
    assert spec["language"] == "python"
    for logo in ("logo-32x32.png", "logo-64x64.png", "logo-svg.svg"):
        assert (PACKAGE / logo).stat().st_size > 0


def test_names_of_later_tools_are_free(kernel):
    code = """
import builtins
reserved = {"list_api_servers", "tools_search", "get_tool_info"}
magics = {name for kind in get_ipython().magics_manager.magics.values() for name in kind}
print(sorted((reserved | {"reserved"}) & (globals().keys() | vars(builtins).keys() | magics)))
"""
    reply, out, _ = kernel.run(code)
    assert (reply["status"], out) == ("ok", "['reserved']\n")
