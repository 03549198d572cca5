"""E2B's own Python client, unmodified, and the requests of Azure's sessions, with sandboxes at every level."""


import e2b
import pytest
from e2b_code_interpreter import Sandbox
from e2b_gateway import check_a_terminal, variables
from levels import LEVELS, AsOrdinaryUser, AtLevel

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", params=LEVELS)
def served(request, tmp_path_factory):
    """A gateway with the facades, at one level."""
    options = ("--e2b", "--azure-sessions")
    if "ordinary" in request.param:
        place = request.getfixturevalue("ordinary_place")
        state = place / "facades"
        own = AsOrdinaryUser(state, request.param, place, *options, env={"HOME": str(state)})
    else:
        request.getfixturevalue("kernel_python")
        own = AtLevel(tmp_path_factory.mktemp("facades"), request.param, *options)
    yield own
    own.stop()


@pytest.fixture(params=["plain", "pooled"])
def sandbox(served, request, monkeypatch):
    """A sandbox of one of the templates."""
    for name, value in variables(served).items():
        monkeypatch.setenv(name, value)
    with Sandbox.create(request.param, timeout=240) as sandbox:
        yield sandbox


def test_code_files_and_commands_are_of_one_sandbox(sandbox, served):
    written = sandbox.files.write("dir/in.txt", "ä😀")
    # At the level namespaces, the work directory is at /home/user. Elsewhere only calls about files know this path.
    assert written.path in ("/home/user/dir/in.txt", "/session/dir/in.txt")
    assert sandbox.run_code("open('dir/in.txt').read()").text == "ä😀"
    sandbox.run_code("open('/session/out.bin', 'wb').write(bytes(range(256)) * 4096)")
    assert sandbox.files.read("/home/user/out.bin", format="bytes") == bytes(range(256)) * 4096
    assert {one.name for one in sandbox.files.list("/session")} >= {"dir", "out.bin"}
    home = written.path.removesuffix("/dir/in.txt")
    assert sandbox.commands.run("cat in.txt; pwd; echo ~", cwd="/home/user/dir").stdout == f"ä😀{home}/dir\n{home}\n"
    with pytest.raises(e2b.CommandExitException) as failed:
        sandbox.commands.run("echo $A >&2; exit 3", envs={"A": "b"})
    assert (failed.value.exit_code, failed.value.stderr) == (3, "b\n")
    inside = sandbox.run_code("import os; print(os.getcwd(), os.environ['HOME'])\n!pwd")
    assert "".join(inside.logs.stdout).split() == [home] * 3
    other = sandbox.create_code_context(cwd="/session/dir")
    assert sandbox.run_code("import os; os.getcwd()", context=other).text == f"{home}/dir"
    sandbox.run_code("x = 1", context=other)
    assert sandbox.run_code("x").error.name == "NameError"
    # The files of both contexts are those of the sandbox; what is written to be kept is.
    sandbox.run_code("import os; os.mkdir('../artifacts'); open('../artifacts/of-other', 'w').close()", context=other)
    assert sandbox.files.read("artifacts/of-other") == ""
    sandbox.run_code("open('artifacts/kept', 'w').write('1')")
    runs = served.http.get(f"v1/sessions/{sandbox.sandbox_id}/executions").json()["executions"]
    results = [served.http.get(f"v1/executions/{run['id']}").json() for run in runs]
    assert [kept["name"] for result in results for kept in result.get("artifacts") or []] == ["kept"]


@pytest.mark.parametrize("sandbox", ["plain"], indirect=True)
def test_commands_in_the_background_and_a_terminal(sandbox):
    handle = sandbox.commands.run("while read line; do echo got $line; done; echo end", background=True, stdin=True)
    assert [one.pid for one in sandbox.commands.list()] == [handle.pid]
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)
    sandbox.commands.stream_input(handle.pid, ["one\n", "two\n"])
    again.close_stdin()
    assert again.wait().stdout == "got one\ngot two\nend\n"
    sleeper = sandbox.commands.run("sleep 1000", background=True)
    assert sleeper.kill() is True
    with pytest.raises(e2b.CommandExitException):
        sleeper.wait()
    assert sandbox.commands.list() == []

    check_a_terminal(sandbox)


@pytest.mark.parametrize("sandbox", ["plain"], indirect=True)
def test_a_directory_is_watched(sandbox):
    sandbox.files.write("watched/old", "1")
    handle = sandbox.files.watch_dir("watched", recursive=True)
    try:
        sandbox.commands.run("rm watched/old; mkdir watched/a; echo x > watched/a/new")
        found = [(event.name, event.type.value) for event in handle.get_new_events()]
        assert found == [("old", "remove"), ("a", "create"), ("a/new", "create"), ("a/new", "chmod"), ("a/new", "write")]
    finally:
        handle.stop()


def test_paths_from_before_a_fork_lead_to_its_own_files(sandbox):
    written = sandbox.files.write("dir/a.txt", "of both")
    sandbox.run_code("import os; os.chdir('dir')\nx = 7")
    (fork,) = sandbox.fork(timeout=120)
    with fork:
        assert fork.run_code("x, open('a.txt').read()").text == "(7, 'of both')"
        for path in (written.path, "dir/a.txt", "/home/user/dir/a.txt", "~/dir/a.txt"):
            assert fork.files.read(path) == "of both", path
        fork.files.write(written.path, "of the fork")
        assert fork.run_code("open('a.txt').read()").text == "of the fork"
        assert fork.run_code("import os; open(os.path.expanduser('~/dir/a.txt')).read()").text == "of the fork"
        own = fork.files.get_info(written.path).path
        assert own != written.path and fork.files.read(own) == "of the fork"
        assert [one.path for one in fork.files.list("/session/dir")] == [own]
        # Commands too, where the client gives the directory.
        for directory in ("/session/dir", "/home/user/dir", "~/dir"):
            assert fork.commands.run("cat a.txt", cwd=directory).stdout == "of the fork", directory
        assert fork.commands.run("cat ~/dir/a.txt").stdout == "of the fork"
        assert sandbox.files.read(written.path) == "of both" == sandbox.commands.run(f"cat {written.path}").stdout
        (second,) = fork.fork(timeout=120)
        with second:
            assert second.files.read(written.path) == "of the fork" == second.files.read(own)
            second.files.write(own, "of the second")
            assert second.run_code("open('a.txt').read()").text == "of the second"
            assert fork.files.read(own) == "of the fork"


def test_files_of_azure_are_at_mnt_data(served):
    for pool in ("plain", "pooled", "kept"):
        named = {"params": {"identifier": "a", "api-version": "2024-02-02-preview"}, "timeout": 120}

        def ran(code, pool=pool, named=named):
            body = {"properties": {"codeInputType": "inline", "executionType": "synchronous", "code": code}}
            response = served.http.post(f"azure/{pool}/code/execute", json=body, **named)
            assert response.status_code == 200, response.text
            return response.json()["properties"]

        sent = served.http.post(f"azure/{pool}/files/upload", files={"file": ("in.csv", b"a,b\n1,2\n")}, **named)
        assert sent.status_code == 200, sent.text
        read = ran("import pandas as pd\nint(pd.read_csv('/mnt/data/in.csv').b[0])")
        assert read["result"] == 2, (pool, read)
        assert ran("open('/mnt/data/out.txt', 'w').write('three')")["result"] == 5
        assert served.http.get(f"azure/{pool}/files/content/out.txt", **named).content == b"three"
        assert ran("import os; os.path.samefile('/mnt/data', '/session') and sorted(os.listdir('/mnt'))")["result"] == "['data']"
        assert served.http.delete(f"azure/{pool}/session", **named).status_code == 200
