"""Files of a session over REST at every level: they are the sandbox's, and what is refused there is refused here."""

import pytest
from channels import Channels
from levels import CONTAINERS

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def files(gateway, session):
    """The address of a fresh session's files."""
    return f"v1/sessions/{session['id']}/files"


def test_both_see_the_same_files_as_the_same_user(gateway, session, files):
    http = gateway.http
    assert http.put(f"{files}/in/a.txt", content=b"sent").status_code == 201
    with Channels(gateway, session["id"]) as client:
        code = "import os; open('in/a.txt', 'a').write('!'); os.rename('in/a.txt', 'b.txt'); os.rmdir('in'); print(os.stat('b.txt').st_uid == os.getuid())"
        assert client.run(code).text() == "True\n"
    assert http.get(f"{files}/b.txt").content == b"sent!"
    assert http.delete(f"{files}/b.txt").status_code == 204
    with Channels(gateway, session["id"]) as client:
        assert client.run("print([name for name in os.listdir('.') if name[0] != '.'])").text() == "[]\n"


def test_nothing_but_the_work_directory_is_reached(gateway, session, files):
    with Channels(gateway, session["id"]) as client:
        client.run("import os; os.symlink('/etc', 'etc'); os.symlink('/proc/1/root', 'root'); os.symlink('..', 'up')")
    for path in ("etc/passwd", "root/etc/passwd", "up/etc/passwd"):
        reply = gateway.http.get(f"{files}/{path}")
        assert (reply.status_code, reply.json()["code"]) == (400, "path_outside"), path


def test_a_full_disk_is_said(gateway, files):
    """The template's disk has 64 MiB."""
    reply = gateway.http.put(f"{files}/large", content=b"x" * (70 << 20))
    assert reply.status_code == 507 and reply.json()["code"] in ("no_space", "disk_quota_exceeded"), reply.text
    listed = gateway.http.get(files).json()
    # The kernel has its own there.
    assert all(entry["path"].startswith(".ipython") for entry in listed["entries"]) and listed["total"]["bytes"] == 0, listed
    assert gateway.http.put(f"{files}/small", content=b"x").status_code == 201


def test_a_watched_quota_bounds_an_upload_and_kept_files_survive_the_kernel(gateway):
    """The template's files are kept, 24 MiB of them."""
    made = gateway.session("kept")
    files = f"v1/sessions/{made['id']}/files"
    # In a container they are a volume of the engine, whose size is not watched: test_kept_volumes.py.
    if gateway.level not in CONTAINERS:
        reply = gateway.http.put(f"{files}/large", content=b"x" * (30 << 20))
        assert (reply.status_code, reply.json()["code"]) == (507, "disk_quota_exceeded"), reply.text
    assert gateway.http.put(f"{files}/small", content=b"x").status_code == 201
    assert gateway.http.post(f"v1/sessions/{made['id']}/restart").status_code == 200
    assert gateway.http.get(f"{files}/small").content == b"x"
    gateway.end(made["id"])
