"""Files that are kept for a session: how long they stay, and what happens when they take too much space."""

import os
import signal
import uuid
from pathlib import Path

import pytest
from channels import Channels
from levels import CONTAINERS
from processes import having_argument
from servers import Himalia
from waiting import eventually

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def directories(gateway):
    """Names of all kept files, which are directories of this host."""
    if gateway.level in CONTAINERS:
        pytest.skip("files are volumes of the engine, and nobody watches their size")
    files = gateway.directory / "data" / "files"
    return lambda: {path.name for path in files.iterdir()}


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


def test_they_stay_while_the_session_does(gateway, kept, directories):
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
    assert kept in directories()
    gateway.end(kept)
    assert kept not in directories()


def test_they_stay_when_the_sandbox_dies(gateway, kept, directories):
    marker = f"in-{kept}"
    with Channels(gateway, kept) as client:
        client.run(f"open('/session/{marker}', 'w').write('x')")
    shims = [pid for pid in having_argument("himalia-shim") if Path(f"/proc/{pid}/root/session/{marker}").exists()]
    os.kill(*shims, signal.SIGKILL)
    eventually(lambda: gateway.show(kept)["state"] == "dead", "the session is dead", 60)
    restarted(gateway)
    assert gateway.show(kept)["state"] == "dead"
    assert (gateway.directory / "data" / "files" / kept / marker).is_file()
    gateway.end(kept)
    assert kept not in directories()


def test_they_stay_with_a_branch_that_outlives_its_parent(gateway, kept, directories):
    with Channels(gateway, kept) as client:
        client.run("open('/session/note', 'w').write('of the parent')")
    reply = gateway.http.post(f"v1/sessions/{kept}/fork", json={"count": 1, "policy": "report"})
    branch = reply.json()["branches"][0]["session"]["id"]
    gateway.end(kept)
    assert kept in directories()
    restarted(gateway)
    eventually(lambda: gateway.show(branch)["state"] == "idle", "the branch was taken over", 60)
    with Channels(gateway, branch) as client:
        assert client.run("print(open('/session/note').read())").text() == "of the parent\n"
    gateway.end(branch)
    assert kept not in directories()


def test_a_gateway_removes_what_no_session_has(gateway, kept, directories):
    files = gateway.directory / "data" / "files"
    orphan = str(uuid.uuid4())
    with Channels(gateway, kept) as client:
        client.run("open('/session/note', 'w').write('mine')")
    gateway.kill()
    (files / orphan / "deep").mkdir(parents=True)
    (files / orphan / "deep" / "file").write_text("x")
    owner = (files / kept).stat()
    os.chown(files / orphan, owner.st_uid, owner.st_gid)
    os.chown(files / orphan / "deep", owner.st_uid, owner.st_gid)
    gateway.start()
    assert orphan not in directories()
    assert (files / kept / "note").read_text() == "mine"


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


def test_a_start_that_fails_leaves_none(tmp_path, directories):
    own = Unstartable(tmp_path)
    try:
        reply = own.http.post("v1/sessions", json={"template": "broken"})
        assert reply.status_code >= 500, reply.text
        assert not list((tmp_path / "data" / "files").iterdir())
    finally:
        own.stop()


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
        # Sent in one go, as a notebook does that runs all its cells.
        removal = client.submit("# himalia: free space\nimport os\nfile.close()\nos.remove('big')")
        after = client.submit("print('there is room')")
        assert client.outcome(removal).content["status"] == "ok"
        assert client.outcome(after).text() == "there is room\n"


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
