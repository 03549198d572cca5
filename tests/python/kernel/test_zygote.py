"""The zygote: kernels that are forked, with all of their sandbox and nothing of the zygote."""

import base64
import json
import os
import platform
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from processes import alive, children, parent
from rawkernel import PACKAGE, RawKernel
from waiting import eventually
from zygotes import HOMES, INSIDE, OUTSIDE, HostZygote, Sandbox, make_namespaces

sys.path.insert(0, str(PACKAGE))
from himalia_kernel.zygote import huge_pages  # noqa: E402

# Names that any kernel has open: its channels' and its event loops' descriptors, and the pipes of its output.
OWN_KINDS = ("socket:", "anon_inode:[event", "pipe:")


@pytest.fixture(scope="module")
def zygote(kernel_python):
    zygote = HostZygote(kernel_python, "numpy,pandas,matplotlib.pyplot,no_such_module")
    yield zygote
    zygote.close()


@pytest.fixture
def sandbox(zygote):
    sandbox = Sandbox(zygote, env={"GIVEN": "yes"})
    yield sandbox
    assert sandbox.end()["op"] == "exited"


def value(kernel, expression):
    reply, out, _ = kernel.run(f"import os, sys, random, gc; print({expression})")
    assert reply["status"] == "ok", reply
    return out.strip()


def open_files(kernel):
    code = """
import os
for name in os.listdir("/proc/self/fd"):
    try: print(name, os.readlink(f"/proc/self/fd/{name}"))
    except OSError: pass
"""
    found = dict(line.split(" ", 1) for line in kernel.run(code)[1].splitlines())
    return {number: target for number, target in found.items() if not is_of_libffi(target)}


def is_of_libffi(target):
    """libffi 3.5 keeps its own file open in every process that has ctypes."""
    return "/libffi.so" in target


def test_the_zygote_says_what_it_holds(zygote):
    assert zygote.ready["ready"] is True
    assert zygote.ready["preloaded"] == ["numpy", "pandas", "matplotlib.pyplot"]
    assert zygote.ready["failed"] == {"no_such_module": "ModuleNotFoundError: No module named 'no_such_module'"}
    assert zygote.ready["pid"] == zygote.process.pid
    kinds = [os.readlink(f"/proc/{zygote.process.pid}/fd/{name}") for name in os.listdir(f"/proc/{zygote.process.pid}/fd")]
    assert sorted(kind.split(":")[0] for kind in kinds if not is_of_libffi(kind)) == sorted(
        ["/dev/null", str(zygote.path / "log"), str(zygote.path / "log"), *["socket"] * 2, *["pipe"] * 3]
    )


CAN_COLLAPSE = """
import ctypes, mmap
from himalia_kernel import libc
from himalia_kernel.zygote import huge_pages
size = int(huge_pages._SIZE.read_text())
memory = mmap.mmap(-1, 2 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = b"1" * len(memory)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc.collapse(-(-start // size) * size, size)
"""


def test_a_zygote_lies_on_huge_pages_where_the_system_has_them(zygote, kernel_python):
    environment = {"PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}
    tried = subprocess.run([str(kernel_python), "-c", CAN_COLLAPSE], env=environment, stderr=subprocess.DEVNULL)
    lines = Path(f"/proc/{zygote.process.pid}/smaps_rollup").read_text().splitlines()
    [huge] = [int(line.split()[1]) for line in lines if line.startswith("AnonHugePages:")]
    assert huge > 0 or tried.returncode != 0


SMAPS = """\
00300000-00d00000 rw-p 00000000 00:00 0 [heap]
Anonymous: 9300 kB
00e00000-01400000 rw-p 00000000 00:00 0
Anonymous: 6144 kB
02000000-03000000 rw-p 00000000 00:00 0
Anonymous: 8 kB
04000000-04500000 rw-p 00000000 fe:00 12 /usr/lib/a library.so
Anonymous: 5120 kB
05000000-05500000 r--p 00000000 00:00 0
Anonymous: 5120 kB
06100000-06300000 rw-p 00000000 00:00 0
Anonymous: 2048 kB
"""


def test_huge_pages_are_whole_ones_of_memory_in_use():
    found = list(huge_pages.ranges(SMAPS.splitlines(), 1 << 21))
    assert found == [(0x400000, 0xC00000), (0xE00000, 0x1400000)]


def test_a_zygote_that_loads_ends_at_once_with_its_gateway(kernel_python, tmp_path):
    """Whatever it imports would be written to a home directory that the next gateway has removed."""
    (tmp_path / "endless.py").write_text(f"import time\nopen({str(tmp_path / 'loading')!r}, 'w').close()\nwhile True: time.sleep(1)\n")
    zygote = HostZygote(kernel_python, "endless", {"PYTHONPATH": f"{PACKAGE}:{tmp_path}"}, wait=False)
    eventually((tmp_path / "loading").exists, "the zygote imports the module")
    zygote.close()
    assert zygote.process.returncode == -signal.SIGIO


def test_the_program_gets_what_the_plan_says_and_nothing_else(zygote):
    reading, writing = os.pipe()
    os.write(writing, b"secret")
    os.close(writing)
    sandbox = Sandbox(zygote, {"key": reading}, env={"GIVEN": "yes"}, rlimits={"RLIMIT_NOFILE": [300, 400]})
    os.close(reading)
    about = sandbox.ask(about=True)
    assert about["pid"] == sandbox.pid == about["sid"]
    assert about["environ"].items() >= {"GIVEN": "yes"}.items() and "HIMALIA_PRELOAD" not in about["environ"]
    assert about["key"] == "secret"
    assert sorted(target.split(":")[0] for target in about["fds"].values()) == sorted(
        ["/dev/null", str(zygote.path / "log"), str(zygote.path / "log"), "pipe", "socket"]
    )
    assert int(about["status"]["SigIgn"], 16) & (1 << (signal.SIGINT - 1)) == 0
    assert sandbox.end(3) == {"op": "exited", "pid": sandbox.pid, "status": 3 << 8}


def test_a_kernel_is_like_a_cold_one(kernel_python, sandbox):
    kernel = sandbox.kernel(rlimits={"RLIMIT_NOFILE": [500, 600]}, oom_score_adj=500)
    cold = RawKernel(kernel_python)
    try:
        for expression in (
            "sorted(name for name in dir() if name not in ('os', 'sys', 'random', 'gc'))",
            "In, Out, get_ipython().execution_count, get_ipython().last_execution_succeeded",
            "sorted(get_ipython().user_ns_hidden)",
            "sys.argv == [], sys.path.index(''), gc.isenabled()",
            "type(sys.stdout).__name__, type(get_ipython()).__name__, type(get_ipython().kernel).__name__",
        ):
            assert value(kernel, expression) == value(cold, expression)
        assert kernel.run("%who")[1] == cold.run("%who")[1]
        assert kernel.run("%history -n")[1].split("%who")[0].count("\n") == cold.run("%history -n")[1].split("%who")[0].count("\n")
    finally:
        cold.close()
    assert value(kernel, "os.getpid()") == str(kernel.pid) == value(kernel, "os.getsid(0)")
    assert parent(kernel.pid) == sandbox.pid
    assert value(kernel, "os.getcwd(), 'HIMALIA_PRELOAD' in os.environ") == f"{sandbox.path} False"
    assert value(kernel, "__import__('resource').getrlimit(7), open('/proc/self/oom_score_adj').read()") == "(500, 600) 500"
    assert value(kernel, "get_ipython().profile_dir.location") == f"{sandbox.path}/.ipython/profile_default"
    assert kernel.run("%cd /\n%dhist")[1].splitlines()[2] == f"0: {sandbox.path}"
    leaked = {n: t for n, t in open_files(kernel).items() if not t.startswith(OWN_KINDS)}
    assert sorted(leaked.values()) in (["/dev/null", str(sandbox.zygote.path / "log")], ["/dev/null"] + [str(sandbox.zygote.path / "log")] * 2)
    messages = kernel.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")[2]
    assert any("image/png" in message["content"].get("data", {}) for message in messages)
    assert kernel.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
    assert sandbox.ask(reap=kernel.pid) == 0


_HOLDERS = """
import gc, types
gc.unfreeze()
def texts(holder):
    try:
        inner = holder.values() if type(holder) is dict else [holder.cell_contents] if type(holder) is types.CellType else holder
        return [str(each) for each in inner if isinstance(each, (str, os.PathLike))]
    except Exception:
        return []
kinds = (dict, list, tuple, set, types.CellType)
print([text for holder in gc.get_objects() if isinstance(holder, kinds) for text in texts(holder) if text.startswith(OWN)])
"""


def test_kernels_know_nothing_of_the_zygotes_home(kernel_python, tmp_path):
    own = tmp_path / "home"
    own.mkdir()
    env = {"HOME": str(own), "MPLCONFIGDIR": str(own / "plots"), "HIMALIA_HOME_OF_KERNELS": "/session"}
    zygote = HostZygote(kernel_python, "matplotlib.pyplot", env=env)
    try:
        assert zygote.ready["failed"] == {}
        assert (own / ".ipython").is_dir() and (own / "plots").is_dir()
        sandbox = Sandbox(zygote)
        kernel = sandbox.kernel()
        kernel.run(f"import os; OWN = {str(own)[:-1]!r} + {str(own)[-1:]!r}")
        assert kernel.run(_HOLDERS)[1] == f"['{own}']\n"  # the name OWN itself
        assert value(kernel, "__import__('matplotlib').get_configdir()") == "/session/plots"
        assert value(kernel, "__import__('jedi').settings.cache_directory").startswith("/session/")
        assert value(kernel, "[name for name in os.environ if 'HIMALIA' in name or 'MPLCONFIG' in name]") == "[]"
        os.kill(kernel.pid, signal.SIGKILL)
        sandbox.ask(reap=kernel.pid)
        sandbox.end()
    finally:
        zygote.close()


_PATHS = """
import gc, os, sys, types
gc.unfreeze()
def codes(code):
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from codes(each)
def paths():
    for function in gc.get_objects():
        if type(function) is types.FunctionType:
            yield from (code.co_filename for code in codes(function.__code__))
    for module in list(sys.modules.values()):
        yield from vars(module).values()
        spec = getattr(module, "__spec__", None)
        for thing, names in ((spec, ("origin", "cached")), (getattr(spec, "loader", None), ("path",))):
            yield from (getattr(thing, name, None) for name in names)
    yield from sys.path
    yield from sys.path_importer_cache
print(sorted({path for path in paths() if isinstance(path, str) and path.startswith(HOST)}))
"""


def test_kernels_know_the_environment_by_its_name_in_a_sandbox(kernel_python, tmp_path):
    prefix, name = Path(kernel_python).parents[1], tmp_path / "env"
    name.symlink_to(prefix)
    zygote = HostZygote(kernel_python, "pandas", env={"HIMALIA_ENV_OF_KERNELS": str(name)})
    try:
        assert zygote.ready["ready"], zygote.ready
        sandbox = Sandbox(zygote)
        kernel = sandbox.kernel()
        kernel.run(f"HOST = {(f'{prefix}/', f'{PACKAGE}/')!r}")
        assert kernel.run(_PATHS)[1] == "[]\n"
        assert value(kernel, "sys.prefix, sys.executable") == f"{name} {name}/bin/{Path(kernel_python).name}"
        module = value(kernel, "__import__('pandas').__file__")
        assert module.startswith(f"{name}/lib/")
        assert value(kernel, "__import__('pandas').__spec__.origin, __import__('pandas').__loader__.path") == f"{module} {module}"
        assert value(kernel, "__import__('himalia_kernel').__file__") == "/himalia/kernel/himalia_kernel/__init__.py"
        assert value(kernel, "'HIMALIA_ENV_OF_KERNELS' in os.environ") == "False"
        os.kill(kernel.pid, signal.SIGKILL)
        sandbox.ask(reap=kernel.pid)
        sandbox.end()
    finally:
        zygote.close()


def test_kernels_differ_and_their_end_is_the_shims_to_see(sandbox):
    first, second = sandbox.kernel("a"), sandbox.kernel("b")
    numbers = "random.random(), __import__('numpy').random.rand()"
    assert set(value(first, numbers).split()).isdisjoint(value(second, numbers).split())
    sessions = {message["header"]["session"] for kernel in (first, second) for message in kernel.run("print(1)")[2]}
    assert len(sessions) == 2
    first.run("import time")
    cell = first.execute("print('begun', flush=True)\ntime.sleep(60)")
    for message in first.outputs(cell):
        if message["msg_type"] == "stream":
            break
    assert first.request("interrupt_request", {}, "control")["status"] == "ok"
    assert first.reply(cell)["ename"] == "KeyboardInterrupt"
    os.kill(first.pid, signal.SIGKILL)
    assert sandbox.ask(reap=first.pid) == signal.SIGKILL
    assert value(second, "6 * 7") == "42"
    second.request("shutdown_request", {"restart": False}, "control")
    assert sandbox.ask(reap=second.pid) == 0


def test_the_first_kernel_was_the_zygote_and_left_one_behind(sandbox):
    refused, _ = sandbox.start(cwd=1)
    waiting, zygote = refused["zygote"]
    assert refused["op"] == "failed" and parent(waiting) == parent(zygote) == sandbox.pid
    answer, _ = sandbox.start("a")
    assert (answer["pid"], answer["zygote"]) == (waiting, [zygote])
    # The next one is forked. The death of the first means nothing to it.
    os.kill(waiting, signal.SIGKILL)
    assert sandbox.ask(reap=waiting) == signal.SIGKILL
    kernel = sandbox.kernel("b")
    assert kernel.pid not in (waiting, zygote) and parent(kernel.pid) == sandbox.pid
    assert value(kernel, "6 * 7") == "42"
    os.kill(kernel.pid, signal.SIGKILL)
    assert sandbox.ask(reap=kernel.pid) == signal.SIGKILL


def test_a_start_that_cannot_work_is_refused(sandbox):
    (sandbox.path / ".ipython/profile_default/startup").mkdir(parents=True)
    for more, word in (
        ({"cwd": "/does/not/exist"}, "FileNotFoundError"),
        ({"connection_file": "/does/not/exist"}, "FileNotFoundError"),
        ({"env": {"A": 1}}, "env:"),
        ({"rlimits": {"RLIMIT_HOPE": [1, 1]}}, "rlimits:"),
        ({"op": "stop"}, "op:"),
    ):
        answer, _ = sandbox.start(**more)
        assert answer["op"] == "failed" and word in answer["error"], answer
    startup = sandbox.path / ".ipython/profile_default/startup/mine.py"
    startup.write_text("x = 1")
    assert "cold start" in sandbox.start()[0]["error"]
    startup.unlink()
    kernel = sandbox.kernel()
    assert value(kernel, "1") == "1"
    os.kill(kernel.pid, signal.SIGKILL)
    assert sandbox.ask(reap=kernel.pid) == signal.SIGKILL


def test_a_kernel_of_a_zygote_can_be_forked(sandbox):
    from branching import Branch

    kernel = sandbox.kernel()
    kernel.directory = type("Directory", (), {"name": str(sandbox.path)})
    kernel.run("x = 5")
    branch = Branch(kernel)
    assert value(branch, "x") == "5"
    assert parent(branch.pid) == sandbox.pid
    for pid in (branch.pid, kernel.pid):
        os.kill(pid, signal.SIGKILL)
        assert sandbox.ask(reap=pid) == signal.SIGKILL
    branch.disconnect()


def test_kernels_of_a_zygote_and_their_branches_end_with_the_shim(zygote):
    """Where no namespace ends with it: as a kernel that the shim executed."""
    from branching import Branch

    sandbox = Sandbox(zygote)
    kernel = sandbox.kernel(parent_pid=sandbox.pid)
    kernel.directory = type("Directory", (), {"name": str(sandbox.path)})
    branch = Branch(kernel, parent_pid=sandbox.pid)
    grandchild = Branch(branch, parent_pid=sandbox.pid)
    assert value(grandchild, "6 * 7") == "42"
    os.kill(sandbox.pid, signal.SIGKILL)
    assert zygote.receive() == {"op": "exited", "pid": sandbox.pid, "status": signal.SIGKILL}
    for one in (kernel, branch, grandchild):
        eventually(lambda pid=one.pid: not alive(pid), "it ends", 30)
        one.disconnect()


def test_a_kernel_that_does_not_become_a_child_of_the_shim_is_none(sandbox):
    from branching import request_fork

    assert "did not become the parent" in sandbox.start(parent_pid=os.getpid())[0]["error"]
    assert "parent_pid" in sandbox.start(parent_pid=0)[0]["error"]
    kernel = sandbox.kernel()
    kernel.directory = type("Directory", (), {"name": str(sandbox.path)})
    reply, _ = request_fork(kernel, parent_pid=os.getpid())
    assert (reply["ename"], "did not become the parent" in reply["evalue"]) == ("BranchFailed", True), reply
    os.kill(kernel.pid, signal.SIGKILL)
    assert sandbox.ask(reap=kernel.pid) == signal.SIGKILL
    kernel.disconnect()


@pytest.mark.parametrize(
    ("request_", "step", "word"),
    [
        ({"argv": []}, "request", "argv"),
        ({"argv": ["/does/not/exist"]}, "exec", "FileNotFoundError"),
        ({"argv": ["x"], "seccomp": "?"}, "request", "seccomp"),
        ({"argv": ["x"], "seccomp": "AAAA"}, "seccomp", "sock_filter"),
        ({"argv": ["x"], "rlimits": {"RLIMIT_NOFILE": [2, 1]}}, "rlimits", "ValueError"),
        ({"argv": ["x"], "fds": ["user"]}, "request", "fds"),
        ({"op": "other"}, "request", "op"),
    ],
)
def test_a_spawn_that_cannot_work_names_its_step(zygote, request_, step, word):
    answer = zygote.spawn(id="bad", **request_)
    assert (answer["op"], answer["id"], answer["step"]) == ("failed", "bad", step)
    assert word in answer["error"]


def test_a_group_that_cannot_be_joined_names_its_step(zygote):
    with open("/dev/full", "wb") as group:
        answer = zygote.spawn(groups=[group.fileno()], id="bad", argv=["/bin/true"])
    assert (answer["step"], answer["error"][:7]) == ("cgroup0", "OSError")


def test_a_caller_that_gives_up_leaves_nothing(zygote):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(zygote.control, [b'{"op": "spawn", "id": "unwanted"}'], [theirs.fileno()])
    assert zygote.receive()["op"] == "failed"
    eventually(lambda: len(children(zygote.process.pid)) == 1, "only the spare is left")


def test_the_next_process_is_there_before_it_is_asked_for(zygote):
    for _ in range(2):
        eventually(lambda: children(zygote.process.pid), "a spare")
        [spare] = children(zygote.process.pid)
        os.kill(spare, signal.SIGKILL)
        eventually(lambda spare=spare: children(zygote.process.pid) not in ([spare], []), "another spare")
    assert Sandbox(zygote).end()["op"] == "exited"


def test_no_json_is_answered_too(zygote):
    zygote.control.send(b"{")
    assert zygote.receive()["step"] == "request"


def deny_getpriority():
    """A filter under which `getpriority` fails with EPERM."""
    number = {"x86_64": 140, "aarch64": 141}[platform.machine()]
    program = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
    return base64.b64encode(b"".join(struct.pack("HBBI", *line) for line in program)).decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="maps another user into the namespaces")
def test_a_sandbox_of_namespaces(zygote, kernel_python):
    prefix = Path(kernel_python).parent.parent
    base = Path(kernel_python).resolve().parent.parent
    visible = [path for path in (prefix, base) if any(path.is_relative_to(home) for home in HOMES)]
    namespaces = make_namespaces(*visible)
    sandbox = Sandbox(zygote, namespaces, uid=INSIDE, gid=INSIDE, seccomp=deny_getpriority())
    for descriptor in namespaces.values():
        os.close(descriptor)
    about = sandbox.ask(about=True)
    assert (about["pid"], about["host"]) == (1, "inside")
    kernel = sandbox.kernel(oom_score_adj=500)
    fields = "Uid", "Gid", "CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"
    code = "status = dict(l.rstrip('\\n').split(':\\t', 1) for l in open('/proc/self/status') if ':\\t' in l)"
    assert kernel.run(code)[0]["status"] == "ok", kernel.run(code)[0]["evalue"]
    for status in (about["status"], {f: value(kernel, f"status['{f}']") for f in fields}):
        assert status["Uid"].split() == [str(INSIDE)] * 4 == status["Gid"].split()
        assert {int(status[f], 16) for f in fields if f.startswith("Cap")} == {0}
        assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    assert kernel.run("os.getpriority(0, 0)")[0]["ename"] == "PermissionError"
    assert value(kernel, "os.getppid(), sorted(int(n) for n in os.listdir('/proc') if n.isdigit())[0]") == "1 1"
    assert value(kernel, "[line.split()[0] for line in open('/proc/net/dev').readlines()[2:]]") == "['lo:']"
    for home in HOMES:
        shown = sorted({path.relative_to(home).parts[0] for path in visible if path.is_relative_to(home)})
        assert value(kernel, f"sorted(os.listdir('{home}')), os.access('{home}', os.W_OK)") == f"{shown} False"
    assert kernel.run("import pandas as pd; print(pd.DataFrame({'a': [1]}).sum().a)")[1] == "1\n"
    leaked = {target for target in open_files(kernel).values() if not target.startswith(OWN_KINDS)}
    assert leaked == {"/dev/null", str(zygote.path / "log")}
    assert os.stat(f"/proc/{sandbox.pid}").st_uid in (OUTSIDE, 0)
    os.kill(sandbox.pid, signal.SIGKILL)
    assert zygote.receive() == {"op": "exited", "pid": sandbox.pid, "status": signal.SIGKILL}
    with pytest.raises(TimeoutError):
        kernel.request("kernel_info_request", {}, timeout=0.5)
    kernel.disconnect()


def test_sandboxes_outlive_the_host_zygote(kernel_python):
    zygote = HostZygote(kernel_python)
    sandbox = Sandbox(zygote)
    kernel = sandbox.kernel()
    zygote.control.close()
    assert zygote.process.wait(30) == 0
    assert value(kernel, "1") == "1"
    other = sandbox.kernel("other")
    assert value(other, "2") == "2"
    sandbox.shim.send(json.dumps({"exit": 0}).encode())
    eventually(lambda: not alive(sandbox.pid), "the stand-in ends")
    for pid in (kernel.pid, other.pid):
        os.kill(pid, signal.SIGKILL)
    zygote.close()


def test_an_unknown_ipykernel_is_reported(kernel_python, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import himalia_kernel.selftest as s\ns.TESTED = ((1, 2),)\n")
    zygote = HostZygote(kernel_python, env={"PYTHONPATH": f"{tmp_path}:{PACKAGE}"})
    assert zygote.ready["ready"] is False and "not a version that was tested" in zygote.ready["reason"]
    assert zygote.receive() is None
    zygote.close()


@pytest.mark.parametrize("preload", ["", "matplotlib.pyplot"])
def test_a_figure_is_shown(kernel_python, preload):
    zygote = HostZygote(kernel_python, preload)
    sandbox = Sandbox(zygote)
    kernel = sandbox.kernel()
    messages = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")[2]
    kernel.disconnect()
    sandbox.end()
    zygote.close()
    assert [list(m["content"]["data"]) for m in messages if m["msg_type"] == "display_data"] == [["text/plain", "image/png"]]
