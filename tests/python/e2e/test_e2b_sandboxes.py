"""Files and commands of sandboxes, by E2B's own Python client, unmodified."""

import contextlib
import datetime
import io
import re
import threading
import time

import e2b
import httpx
import pytest
from e2b import AsyncSandbox, FileType, Sandbox
from e2b_gateway import check_a_terminal, example, pointed, run_example, sandbox, served  # noqa: F401 (fixtures)
from waiting import eventually


def test_the_first_example_of_the_client(pointed):
    code = example("e2b", "### 3. Start a sandbox and run commands")
    assert "print(result.stdout)  # Hello from E2B!" in code
    assert run_example(pointed, code) == "Hello from E2B!\n\n"


def test_files_are_written_and_read(sandbox):
    written = sandbox.files.write("dir/a.txt", "ä😀")
    assert (written.name, written.type) == ("a.txt", FileType.FILE) and written.path.endswith("/dir/a.txt")
    assert sandbox.files.read("dir/a.txt") == "ä😀" == sandbox.files.read(written.path)
    assert sandbox.files.read("/home/user/dir/a.txt", format="bytes") == "ä😀".encode()
    assert sandbox.run_code("open('dir/a.txt').read()").text == "ä😀"

    large = bytes(range(256)) * 8192
    sandbox.files.write("large", io.BytesIO(large))
    assert b"".join(sandbox.files.read("large", format="stream")) == large
    sandbox.files.write("packed", "x" * 3_000_000, gzip=True)
    assert sandbox.files.read("packed") == "x" * 3_000_000
    several = sandbox.files.write_files([{"path": "b", "data": "1"}, {"path": "c/d", "data": b"2"}])
    assert [one.name for one in several] == ["b", "d"] and sandbox.files.read("c/d") == "2"

    with pytest.raises(e2b.FileNotFoundException):
        sandbox.files.read("nothing")
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.files.read("../x")
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.files.write("../x", "x")
    with pytest.raises(e2b.InvalidArgumentException, match="one user"):
        sandbox.files.read("b", user="root")


def test_files_outside_the_work_directory(sandbox, tmp_path):
    """All that the user of the sandbox may reach: without isolation, the user of the gateway."""
    path = f"{tmp_path}/dir/a.txt"
    written = sandbox.files.write(path, "1")
    assert written.path == path == sandbox.files.get_info(path).path
    assert [one.path for one in sandbox.files.list(f"{tmp_path}/dir")] == [path]
    assert sandbox.commands.run(f"cat {path}").stdout == "1" == sandbox.files.read(path)
    assert sandbox.files.rename(path, f"{tmp_path}/b").path == f"{tmp_path}/b"
    sandbox.files.remove(f"{tmp_path}/b")
    assert not sandbox.files.exists(f"{tmp_path}/b")
    assert len(sandbox.files.read("/proc/sys/kernel/random/boot_id")) == 37
    for process in ("/proc/self/environ", "/proc/thread-self/environ", "/proc/1/environ"):
        with pytest.raises(e2b.SandboxException, match="may not do this"):
            sandbox.files.read(process)


def test_files_have_metadata(sandbox):
    written = sandbox.files.write("m", "x", metadata={"Author": "me"})
    assert written.metadata == {"author": "me"} == sandbox.files.get_info("m").metadata
    assert [one.metadata for one in sandbox.files.list(".") if one.name == "m"] == [{"author": "me"}]
    assert sandbox.files.rename("m", "n").metadata == {"author": "me"}
    sandbox.files.write("n", "y")
    assert sandbox.files.get_info("n").metadata is None
    with pytest.raises(e2b.InvalidArgumentException, match="at most 4096 bytes"):
        sandbox.files.write("o", "x", metadata={"long": "1" * 4096})
    assert not sandbox.files.exists("o")


def test_events_have_the_entries_of_their_files(sandbox):
    sandbox.files.make_dir("watched")
    watch = sandbox.files.watch_dir("watched", include_entry=True)
    path = sandbox.files.write("watched/a", "1").path
    events = watch.get_new_events()
    assert [event.type.value for event in events] == ["create", "chmod", "write"]
    assert {event.entry.path for event in events} == {path}
    sandbox.files.remove("watched/a")
    (removed,) = watch.get_new_events()
    assert removed.entry is None
    watch.stop()


def test_a_link_is_shown_with_what_it_leads_to(sandbox):
    sandbox.files.write("dir/file", "1")
    sandbox.commands.run("ln -s file link && ln -s ../dir/link again && ln -s nothing lost && ln -s round round", cwd="dir")
    path = sandbox.files.get_info("dir/file").path
    for name in ("link", "again"):
        found = sandbox.files.get_info(f"dir/{name}")
        assert (found.type, found.symlink_target) == (e2b.FileType.FILE, path)
    assert sandbox.files.get_info("dir/lost").symlink_target == "nothing"
    assert sandbox.files.get_info("dir/round").symlink_target == "round"
    assert sandbox.files.get_info("dir").size > 0


def test_a_refused_upload_is_answered(sandbox):
    """The client has sent all of it by then, also where it is far more than a connection holds."""
    sandbox.files.make_dir("taken")
    for octet_stream in (True, False):
        with pytest.raises(e2b.InvalidArgumentException, match="directory"):
            sandbox.files.write("taken", b"1" * (20 << 20), use_octet_stream=octet_stream)


def test_a_sandbox_ends_at_its_second(pointed):
    """Its time has passed for clients before the gateway has ended it, which may take longer."""
    with Sandbox.create(timeout=60) as sandbox:
        sandbox.set_timeout(1)
        end = sandbox.get_info().end_at
        eventually(lambda: datetime.datetime.now(datetime.UTC) >= end, "its second has come")
        assert not sandbox.is_running()
        assert sandbox.sandbox_id not in [one.sandbox_id for one in Sandbox.list().next_items()]


def test_code_and_commands_of_a_sandbox_that_is_killed(pointed):
    """Clients say that the sandbox was killed, since their connection breaks and the sandbox is gone."""
    from e2b_code_interpreter import Sandbox as Interpreter

    for run in (
        lambda sandbox: sandbox.run_code("import time; time.sleep(60)"),
        lambda sandbox: sandbox.commands.run("sleep 60"),
    ):
        sandbox = Interpreter.create(timeout=60)
        sandbox.run_code("1")
        killer = threading.Timer(1, sandbox.kill)
        killer.start()
        with pytest.raises(e2b.TimeoutException, match="killed"):
            run(sandbox)
        killer.join()


def test_answers_name_the_domain_of_the_gateway(pointed, sandbox):
    """A client that knows no other address asks below this one, never in E2B's cloud."""
    host = httpx.URL(pointed.url).netloc.decode()
    assert sandbox.get_host(80) == f"80-{sandbox.sandbox_id}.{host}"
    assert Sandbox.connect(sandbox.sandbox_id).sandbox_domain == host


def test_a_fork_of_a_sandbox_that_has_just_started(pointed):
    with Sandbox.create(timeout=60) as sandbox:
        for fork in sandbox.fork(count=2, timeout=60):
            assert isinstance(fork, Sandbox), fork
            fork.kill()


def test_files_are_listed_moved_and_removed(sandbox):
    assert sandbox.files.make_dir("one/two") is True and sandbox.files.make_dir("one/two") is False
    sandbox.files.write("one/a", "12345")
    found = sandbox.files.get_info("one/a")
    assert (found.name, found.type, found.size, found.mode, found.permissions) == (
        "a",
        FileType.FILE,
        5,
        0o644,
        "-rw-r--r--",
    )
    assert abs(found.modified_time.timestamp() - time.time()) < 600
    assert sandbox.files.get_info("one").type == FileType.DIR
    listed = {one.path.split("/one/")[-1]: one.type for one in sandbox.files.list("one", depth=2)}
    assert listed == {"a": FileType.FILE, "two": FileType.DIR}
    moved = sandbox.files.rename("one/a", "three/b")
    assert moved.path.endswith("/three/b") and sandbox.files.read("three/b") == "12345"
    assert not sandbox.files.exists("one/a") and sandbox.files.exists("three/b")
    sandbox.commands.run("ln -s b three/link")
    link = sandbox.files.get_info("three/link")
    assert link.type == FileType.FILE and link.symlink_target.endswith("/three/b")
    sandbox.files.remove("three")
    sandbox.files.remove("three")
    assert not sandbox.files.exists("three/b")
    with pytest.raises(e2b.FileNotFoundException):
        sandbox.files.rename("nothing", "else")
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.files.rename("one", "one/two/three")
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.files.list("one/../..")


def test_directories_are_watched(sandbox):
    sandbox.files.write("watched/old", "1")
    with sandbox_watch(sandbox, "watched", recursive=False) as flat, sandbox_watch(sandbox, "watched", recursive=True) as deep:
        assert flat.get_new_events() == []
        sandbox.run_code("import os, pathlib; os.remove('watched/old'); os.makedirs('watched/a/b'); pathlib.Path('watched/a/b/new').write_text('x')")
        found = [(event.name, event.type.value) for event in deep.get_new_events()]
        assert found == [("old", "remove"), ("a", "create"), ("a/b", "create"), ("a/b/new", "create"), ("a/b/new", "chmod"), ("a/b/new", "write")]
        assert [(event.name, event.type.value) for event in flat.get_new_events()] == [("old", "remove"), ("a", "create")]
        sandbox.run_code("os.chmod('watched/a/b/new', 0o600); pathlib.Path('watched/a/b/new').write_text('xy')")
        assert {(event.name, event.type.value) for event in deep.get_new_events()} == {("a/b/new", "write"), ("a/b/new", "chmod")}
        for _ in range(6):
            sandbox.files.watch_dir("watched")
        with pytest.raises(e2b.SandboxException, match="at most 8 watchers"):
            sandbox.files.watch_dir("watched")
    with pytest.raises(e2b.SandboxException, match="stopped"):
        flat.get_new_events()
    with pytest.raises(e2b.FileNotFoundException):
        sandbox.files.watch_dir("nothing")
    with pytest.raises(e2b.InvalidArgumentException, match="not a directory"):
        sandbox.files.watch_dir("watched/a/b/new")


@contextlib.contextmanager
def sandbox_watch(sandbox, path, recursive):
    handle = sandbox.files.watch_dir(path, recursive=recursive)
    yield handle
    handle.stop()


def test_signed_addresses_of_files(sandbox):
    with httpx.Client(trust_env=False) as plain:
        up = sandbox.upload_url("signed.txt", use_signature_expiration=60)
        assert plain.post(up, files={"file": ("x", b"signed")}).status_code == 200
        down = sandbox.download_url("signed.txt")
        assert plain.get(down).content == b"signed"
        assert plain.get(f"{down}&sandbox={sandbox.sandbox_id}").content == b"signed"
        assert plain.get(f"{down}&sandbox=11111111-2222-4333-8444-555555555555").status_code == 401
        for wrong in (
            down.replace("signed.txt", "other.txt"),
            re.sub(r"signature=v1_.", "signature=v1_0", down),
            re.sub(r"&signature=.*", "", down),
            sandbox.download_url("signed.txt", use_signature_expiration=-1),
        ):
            assert plain.get(wrong).status_code == 401, wrong
        assert plain.post(down, files={"file": ("x", b"y")}).status_code == 401, "it is for reading"
    assert sandbox.files.read("signed.txt") == "signed"


def test_commands_in_the_foreground(sandbox):
    lines = []
    done = sandbox.commands.run(
        'echo "$A" "$B"; pwd; echo oops >&2',
        envs={"A": "ä", "B": "1 2"},
        on_stdout=lines.append,
        on_stderr=lines.append,
    )
    assert done.exit_code == 0 and done.stderr == "oops\n"
    first, directory = done.stdout.splitlines()
    assert first == "ä 1 2" and "".join(lines).count("\n") == 3
    sandbox.files.make_dir("sub")
    assert sandbox.commands.run("pwd", cwd="sub").stdout == f"{directory}/sub\n"
    assert sandbox.commands.run("pwd", cwd="/").stdout == "/\n"
    with pytest.raises(e2b.CommandExitException) as failed:
        sandbox.commands.run("echo out; echo err >&2; exit 7")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.stderr) == (7, "out\n", "err\n")
    with pytest.raises(e2b.CommandExitException) as killed:
        sandbox.commands.run("kill -9 $$")
    assert killed.value.error == "signal: killed"
    assert sandbox.commands.run("cat").stdout == "", "without an input it reads the end"
    with pytest.raises(e2b.InvalidArgumentException):
        sandbox.commands.run("true", cwd="nowhere")
    with pytest.raises(e2b.InvalidArgumentException, match="one user"):
        sandbox.commands.run("true", user="root")
    long = sandbox.commands.run("head -c 3000000 /dev/zero | tr '\\0' x; echo")
    assert long.stdout == "x" * 3_000_000 + "\n"


def test_nothing_of_a_short_command_is_lost(sandbox):
    for number in range(40):
        done = sandbox.commands.run(f"echo {number}; echo e{number} >&2")
        assert (done.stdout, done.stderr) == (f"{number}\n", f"e{number}\n")


def test_a_command_ends_with_its_timeout(sandbox):
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.run("echo $$ > pid; sleep 1000", timeout=1)
    pid = sandbox.files.read("pid").strip()
    eventually(lambda: not alive(sandbox, pid), "the command is killed", 30)


def alive(sandbox, pid):
    return sandbox.commands.run(f"kill -0 {pid} 2>/dev/null && echo yes || echo no").stdout == "yes\n"


def test_commands_in_the_background(sandbox):
    handle = sandbox.commands.run("while read line; do echo got $line; done; echo end", background=True, stdin=True)
    (listed,) = sandbox.commands.list()
    assert listed.pid == handle.pid and listed.args[-1].startswith("while read")
    sandbox.commands.send_stdin(handle.pid, "one\n")
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    sandbox.commands.send_stdin(handle.pid, "two\n")
    sandbox.commands.stream_input(handle.pid, ["three\n", "four\n"])
    again.close_stdin()
    done = again.wait()
    assert done.exit_code == 0 and done.stdout.endswith("got two\ngot three\ngot four\nend\n")
    assert sandbox.commands.list() == []
    for gone in (lambda: sandbox.commands.send_stdin(handle.pid, "x"), lambda: sandbox.commands.connect(handle.pid)):
        with pytest.raises(e2b.NotFoundException):
            gone()

    sleeper = sandbox.commands.run("sleep 1000", background=True)
    assert sleeper.kill() is True
    with pytest.raises(e2b.CommandExitException):
        sleeper.wait()
    assert sandbox.commands.kill(sleeper.pid) is False


def test_commands_run_beside_code_and_survive_a_restart_of_the_kernel(pointed):
    from e2b_code_interpreter import Sandbox as Interpreter

    with Interpreter.create() as sandbox:
        sleeper = sandbox.commands.run("sleep 1000", background=True)
        running = threading.Thread(target=sandbox.run_code, args=("import time; time.sleep(3)",))
        running.start()
        assert sandbox.commands.run("echo now").stdout == "now\n"
        running.join()
        sandbox.restart_code_context(sandbox.sandbox_id)
        assert sandbox.run_code("1 + 1").text == "2"
        assert [one.pid for one in sandbox.commands.list()] == [sleeper.pid]


def test_a_terminal(sandbox):
    check_a_terminal(sandbox)


def test_a_sandbox_that_ends_ends_its_commands(pointed):
    sandbox = Sandbox.create()
    handle = sandbox.commands.run("sleep 1000", background=True)
    assert sandbox.kill() is True
    with pytest.raises(e2b.SandboxException):
        handle.wait()
    with pytest.raises(e2b.TimeoutException):
        sandbox.commands.run("true")
    with pytest.raises(e2b.TimeoutException):
        sandbox.files.read("x")


def test_the_async_client(pointed):
    import asyncio

    async def work():
        sandbox = await AsyncSandbox.create()
        try:
            await sandbox.files.write("a", "1")
            handle = await sandbox.commands.run("cat; echo $?", background=True, stdin=True)
            await handle.send_stdin("x\n")
            await handle.close_stdin()
            done = await handle.wait()
            return await sandbox.files.read("a"), done.stdout
        finally:
            await sandbox.kill()

    assert asyncio.run(work()) == ("1", "x\n0\n")
