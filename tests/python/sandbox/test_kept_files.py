"""Files that are kept for a session: how long they stay, and what happens when they take too much space."""

import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest
from channels import Channels
from levels import CONTAINERS, ENGINE
from processes import having_argument
from servers import Himalia
from waiting import eventually

pytestmark = pytest.mark.timeout(300)


def docker(*args):
    """What a command of the engine printed."""
    done = subprocess.run(["docker", *args], env={**os.environ, "DOCKER_HOST": ENGINE}, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


@pytest.fixture
def files(gateway):
    """Names of all kept files: directories of this host, or volumes of the engine."""
    if gateway.level in CONTAINERS:
        return lambda: set(docker("volume", "ls", "-q", "--filter", "label=himalia.files"))
    directory = gateway.directory / "data" / "files"
    return lambda: {path.name for path in directory.iterdir()}


@pytest.fixture
def directory(gateway):
    """The directory of kept files, at levels that have one."""
    if gateway.level in CONTAINERS:
        pytest.skip("files are volumes of the engine, whose size is not watched")
    return gateway.directory / "data" / "files"


@pytest.fixture
def watched(gateway):
    """At levels whose quota is watched."""
    if gateway.level in CONTAINERS:
        pytest.skip("files are volumes of the engine, whose size is not watched")


@pytest.fixture
def kept(gateway):
    """A session whose files are kept, ended afterwards."""
    made = gateway.session("kept")
    yield made["id"]
    gateway.end(made["id"])


def restarted(gateway):
    """kill -9 of the gateway, and the next one."""
    gateway.kill()
    gateway.start()


def lose(gateway, session):
    """Ends the sandbox of a session from outside, as a host does that goes down."""
    if gateway.level in CONTAINERS:
        own = docker("ps", "-q", "--filter", f"label=himalia.label.kernel={session}")
        assert len(own) == 1, own
        docker("kill", *own)
    else:
        marker = f"in-{session}"
        reply = gateway.http.put(f"v1/sessions/{session}/files/{marker}", content=b"")
        assert reply.status_code in (200, 201), reply.text
        shims = [pid for pid in having_argument("himalia-shim") if Path(f"/proc/{pid}/root/session/{marker}").exists()]
        os.kill(*shims, signal.SIGKILL)
    eventually(lambda: gateway.show(session)["state"] == "dead", "the session is dead", 60)


def execute(gateway, session, code):
    """The result of an execution."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code}, timeout=180)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_they_stay_while_the_session_does(gateway, kept, files):
    note = "print(open('/session/note').read())"
    with Channels(gateway, kept) as client:
        client.run("open('/session/note', 'w').write('mine'); gone = 1")
        assert gateway.http.post(f"api/kernels/{kept}/restart").status_code == 200
        assert client.run(note, 120).text() == "mine\n"
        assert client.run("gone").content["ename"] == "NameError"
    restarted(gateway)
    eventually(lambda: gateway.show(kept)["state"] == "idle", "the kernel was taken over", 60)
    with Channels(gateway, kept) as client:
        assert client.run(note).text() == "mine\n"
    assert len(files()) == 1
    gateway.end(kept)
    assert not files()


def test_they_are_there_again_in_the_next_sandbox(gateway, kept, files):
    first = execute(gateway, kept, "open('/session/note', 'w').write('mine'); gone = 1")
    lose(gateway, kept)
    restarted(gateway)
    assert gateway.show(kept)["state"] == "dead"
    done = execute(gateway, kept, "print(open('/session/note').read(), 'gone' in globals())")
    assert done["text"] == "mine False\n", done
    replaced = done["kernel"]["replaced"]
    assert done["kernel"]["incarnation"] == 2 and replaced["incarnation"] == 1, done
    assert replaced["variables_lost"]["names"] == ["gone"], replaced
    assert replaced["sandbox_lost"] == {"files": False, "secrets": [], "kernels": [], "branches": []}
    assert gateway.http.get(f"v1/executions/{first['id']}").status_code == 200
    assert len(files()) == 1
    gateway.end(kept)
    assert not files()


def test_they_can_be_had_before_anything_else_is_done(gateway, kept):
    code = "import os; os.mkdir('/session/in'); open('/session/in/note', 'w').write('mine'); os.symlink('/etc/passwd', '/session/out')"
    assert execute(gateway, kept, code)["status"] == "ok"
    lose(gateway, kept)
    files = f"v1/sessions/{kept}/files"
    listed = gateway.http.get(files, timeout=180).json()
    assert {"in", "out"} <= {entry["path"] for entry in listed["entries"]}, listed
    assert gateway.http.get(f"{files}/in/note").content == b"mine"
    assert gateway.http.get(f"{files}/out").json()["code"] == "path_outside"
    assert gateway.http.delete(f"{files}/in/note").status_code == 204
    assert execute(gateway, kept, "import os; print(os.listdir('/session/in'))")["text"] == "[]\n"


def test_a_name_leads_to_a_session_that_lives(gateway):
    body = {"template": "kept", "env": {"PLAIN": "kept"}, "secrets": {"HIDDEN": "hush"}}
    made = gateway.http.put("v1/sessions/again", json=body, timeout=180).json()
    try:
        execute(gateway, made["id"], "open('/session/note', 'w').write('mine')")
        lose(gateway, made["id"])
        reply = gateway.http.put("v1/sessions/again", json=body, timeout=180)
        session = reply.json()
        assert (reply.status_code, session["id"], session["incarnation"]) == (200, made["id"], 2), session
        code = "import os; print(os.environ['PLAIN'], os.environ['HIDDEN'], open('/session/note').read())"
        assert execute(gateway, made["id"], code)["text"] == "kept hush mine\n"
        lose(gateway, made["id"])
        # Code that counts on the variables is not run, and secrets that are not given again are named.
        refused = gateway.http.post("v1/sessions/again/executions", json={"code": "1", "expect_incarnation": 2})
        assert (refused.status_code, refused.json()["code"]) == (409, "kernel_restarted"), refused.text
        done = execute(gateway, made["id"], "import os; print(os.environ['PLAIN'], os.environ.get('HIDDEN'))")
        assert done["text"] == "kept None\n" and done["kernel"]["replaced"]["sandbox_lost"]["secrets"] == ["HIDDEN"], done
    finally:
        gateway.end(made["id"])


def test_ephemeral_files_are_named_as_lost(gateway, session):
    execute(gateway, session["id"], "open('/session/note', 'w').write('mine')")
    lose(gateway, session["id"])
    done = execute(gateway, session["id"], "import os; print(os.path.exists('/session/note'))")
    assert done["text"] == "False\n" and done["kernel"]["replaced"]["sandbox_lost"]["files"] is True, done


def test_they_stay_with_a_branch_that_outlives_its_parent(gateway, kept, files):
    with Channels(gateway, kept) as client:
        client.run("open('/session/note', 'w').write('of the parent')")
    reply = gateway.http.post(f"v1/sessions/{kept}/fork", json={"count": 1, "policy": "report"})
    branch = reply.json()["branches"][0]["session"]["id"]
    gateway.end(kept)
    assert len(files()) == 1
    restarted(gateway)
    eventually(lambda: gateway.show(branch)["state"] == "idle", "the branch was taken over", 60)
    with Channels(gateway, branch) as client:
        assert client.run("print(open('/session/note').read())").text() == "of the parent\n"
    gateway.end(branch)
    assert not files()


def test_an_id_that_is_free_again_leads_to_nobodys_files(gateway, files):
    """The session that chose the id has ended, and a branch of it still has the files."""
    chosen = str(uuid.uuid4())
    gateway.session("kept", id=chosen)
    assert not any(chosen in name for name in files())
    execute(gateway, chosen, "open('/session/note', 'w').write('of the first')")
    reply = gateway.http.post(f"v1/sessions/{chosen}/fork", json={"count": 1, "policy": "report"})
    branch = reply.json()["branches"][0]["session"]["id"]
    gateway.end(chosen)
    again = gateway.session("kept", id=chosen)["id"]
    look = "import os; print([name for name in os.listdir('/session') if name[0] != '.'])"
    assert execute(gateway, again, look)["text"] == "[]\n"
    gateway.end(again)
    assert execute(gateway, branch, "print(open('/session/note').read())")["text"] == "of the first\n"
    gateway.end(branch)
    assert not files()


def test_a_gateway_removes_what_no_session_has(gateway, kept, directory):
    orphan = str(uuid.uuid4())
    with Channels(gateway, kept) as client:
        client.run("open('/session/note', 'w').write('mine')")
    (own,) = directory.iterdir()
    gateway.kill()
    (directory / orphan / "deep").mkdir(parents=True)
    (directory / orphan / "deep" / "file").write_text("x")
    owner = own.stat()
    os.chown(directory / orphan, owner.st_uid, owner.st_gid)
    os.chown(directory / orphan / "deep", owner.st_uid, owner.st_gid)
    gateway.start()
    assert list(directory.iterdir()) == [own]
    assert (own / "note").read_text() == "mine"


class Unstartable(Himalia):
    """A gateway with a kernel whose program cannot be executed, and whose files would be kept."""

    isolation = ()

    def __init__(self, directory):
        program, spec = directory / "program", directory / "kernels" / "broken"
        program.write_text("#!/no/such/interpreter\n")
        program.chmod(0o755)
        spec.mkdir(parents=True)
        argv = f'["{program}", "{{connection_file}}"]'
        (spec / "kernel.json").write_text(f'{{"argv": {argv}, "display_name": "Broken", "language": "none"}}')
        config = directory / "himalia.toml"
        config.write_text('isolation = "namespaces"\n[defaults]\nfiles = "session"\n')
        super().__init__(directory, "--config", str(config), "--kernelspec-dir", str(directory / "kernels"))


@pytest.mark.usefixtures("directory")
def test_a_start_that_fails_leaves_none(tmp_path):
    own = Unstartable(tmp_path)
    try:
        reply = own.http.post("v1/sessions", json={"template": "broken"})
        assert reply.status_code >= 500, reply.text
        assert not list((tmp_path / "data" / "files").iterdir())
    finally:
        own.stop()


@pytest.mark.usefixtures("watched")
def test_too_much_is_interrupted_and_refused_until_there_is_room(gateway, kept):
    fill = "import time\nfile = open('big', 'wb')\nwhile True:\n    file.write(bytes(1 << 20)); file.flush(); time.sleep(0.1)"
    with Channels(gateway, kept) as client:
        filled = client.run(fill, 120)
        assert filled.content["ename"] == "KeyboardInterrupt", filled
        said = filled.text("stderr")
        assert "disk quota exceeded" in said and "the limit is 24.0 MiB" in said and "himalia: free space" in said, said
        refused = client.run("print('not run')")
        assert refused.content["status"] == "error" and refused.content["ename"] == "disk_quota_exceeded", refused
        assert [error["content"]["ename"] for error in refused.of("error")] == ["disk_quota_exceeded"]
        assert refused.text() == ""
        # Sent in one step, as by a notebook that runs all its cells.
        removal = client.submit("# himalia: free space\nimport os\nfile.close()\nos.remove('big')")
        after = client.submit("print('there is room')")
        assert client.outcome(removal).content["status"] == "ok"
        assert client.outcome(after).text() == "there is room\n"


@pytest.mark.usefixtures("watched")
def test_what_goes_on_writing_loses_its_process(gateway, kept):
    deaf = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
file = open('big', 'wb')
while True:
    try:
        file.write(bytes(1 << 20)); file.flush(); time.sleep(0.1)
    except BaseException:
        pass
"""
    with Channels(gateway, kept) as client:
        client.submit(deaf)
        died = eventually(lambda: gateway.show(kept)["state"] == "dead" and gateway.show(kept), "it is dead", 120)
        assert died["reason"].startswith("disk_quota_exceeded"), died
        # The next process is under the same limit.
        refused = client.run("1", 120)
        assert refused.content["ename"] == "disk_quota_exceeded", refused
        assert client.run("# himalia: free space\nimport os; os.remove('big')", 120).content["status"] == "ok"
        assert client.run("print(1)", 120).text() == "1\n"
