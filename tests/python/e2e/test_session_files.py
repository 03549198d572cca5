"""Files of a session over REST, at level none: up, down, listed, removed, as archives, and nothing outside."""

import hashlib
import io
import tarfile
import threading

import httpx
import pytest


@pytest.fixture
def files(shared, tmp_path):
    """The files of a session with its own work directory."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("outside")
    reply = shared.http.post("v1/sessions", json={"template": "python3", "cwd": str(work)})
    assert reply.status_code == 201, reply.text
    yield SessionFiles(shared.http, reply.json()["id"], work)
    shared.http.delete(f"v1/sessions/{reply.json()['id']}")


class SessionFiles:
    """Calls about one session's files."""

    def __init__(self, http, session, work):
        self.http, self.work = http, work
        self.base = f"v1/sessions/{session}"

    def file(self, path):
        """The address of a file."""
        return f"{self.base}/files/{path}"

    def run(self, code):
        """Run code and return its result."""
        reply = self.http.post(f"{self.base}/executions", json={"code": code}, timeout=120)
        assert reply.status_code == 200 and reply.json()["status"] == "ok", reply.text
        return reply.json()


def archive(*entries):
    """A tar archive of names with text, or of `TarInfo`s as they are."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
                continue
            name, text = entry
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return body.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    """An entry that is a link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_code_reads_what_was_sent_and_what_it_writes_can_be_fetched(files):
    sent = bytes(range(256)) * 40_000
    assert files.http.put(files.file("in/data.bin"), content=sent).status_code == 201
    done = files.run("import hashlib; data = open('in/data.bin', 'rb').read(); open('out.txt', 'w').write(hashlib.sha256(data).hexdigest())")
    assert done["files"]["written"] == ["out.txt"], done["files"]
    assert files.http.get(files.file("out.txt")).text == hashlib.sha256(sent).hexdigest()
    listed = files.http.get(f"{files.base}/files", params={"depth": 5}).json()
    assert {entry["path"] for entry in listed["entries"]} == {"in", "in/data.bin", "out.txt"}
    assert listed["total"] == {"entries": 3, "bytes": len(sent) + 64}


def test_what_was_sent_before_is_not_the_executions(files):
    """Although the filesystem's clock stands still for milliseconds."""
    for number in range(20):
        assert files.http.put(files.file("sent"), content=str(number)).status_code in (200, 201)
        archived = files.http.post(f"{files.base}/upload", content=archive(("unpacked", str(number))))
        assert archived.status_code == 200, archived.text
        assert files.run(f"open('out{number}', 'w').close()")["files"]["written"] == [f"out{number}"]


def test_files_are_there_while_a_cell_runs(files):
    runner = threading.Thread(target=files.run, args=("import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)",))
    runner.start()
    assert files.http.get(f"{files.base}/files").status_code == 200
    assert files.http.put(files.file("go"), content=b"").status_code == 201
    runner.join(60)
    assert not runner.is_alive()


def test_a_replacement_is_never_seen_in_part(files):
    files.http.put(files.file("f"), content=b"a" * 2_000_000)
    sizes = set()
    stop = threading.Event()

    def read():
        while not stop.is_set():
            sizes.add((files.work / "f").stat().st_size)

    reader = threading.Thread(target=read)
    reader.start()
    for letter in (b"b", b"c", b"d"):
        assert files.http.put(files.file("f"), content=letter * 2_000_000).status_code == 200
    stop.set()
    reader.join()
    assert sizes == {2_000_000}


def test_archives(files):
    reply = files.http.post(f"{files.base}/upload", params={"path": "lib"}, content=archive(("a/b.py", "x = 1"), ("c.py", "y = 2")))
    assert reply.status_code == 200 and reply.json()["entries"] == 2, reply.text
    assert files.run("import sys; sys.path.insert(0, 'lib'); import c; print(c.y)")["text"].strip() == "2"
    fetched = files.http.get(f"{files.base}/archive", params={"path": "lib"})
    with tarfile.open(fileobj=io.BytesIO(fetched.content)) as tar:
        assert {"a", "a/b.py", "c.py"} <= set(tar.getnames())
        assert tar.extractfile("a/b.py").read() == b"x = 1"


@pytest.mark.parametrize(
    "bad",
    [
        ("../secret2", "x"),
        ("/tmp/himalia-absolute", "x"),
        link("l", "../secret"),
        link("l", "/etc/passwd"),
        link("l", "good", tarfile.LNKTYPE),
    ],
    ids=["above", "absolute", "link out", "absolute link", "hard link"],
)
def test_hostile_archives_write_nothing(files, bad):
    reply = files.http.post(f"{files.base}/upload", content=archive(("good", "x"), bad))
    assert (reply.status_code, reply.json()["code"]) == (422, "bad_archive")
    assert list(files.work.iterdir()) == []
    assert {path.name for path in files.work.parent.iterdir()} == {"work", "secret"}


def test_links_that_a_cell_makes_lead_nowhere(files):
    files.run("import os; os.symlink('..', 'up'); os.symlink('/etc', 'etc'); os.symlink('real', 'inside'); open('real', 'w').write('mine')")
    for path in ("up/secret", "etc/passwd"):
        reply = files.http.get(files.file(path))
        assert (reply.status_code, reply.json()["code"]) == (400, "path_outside")
        assert files.http.put(files.file(path), content=b"x").status_code == 400
        assert files.http.delete(files.file(path)).status_code == 400
    assert files.http.get(files.file("inside")).text == "mine"
    assert (files.work.parent / "secret").read_text() == "outside"


def test_special_files_are_refused_at_once(files):
    files.run("import os; os.mkfifo('pipe'); f = open('sparse', 'w'); f.truncate(1 << 40)")
    assert files.http.get(files.file("pipe"), timeout=30).json()["code"] == "not_a_file"
    part = files.http.get(files.file("sparse"), headers={"Range": "bytes=-4"})
    assert (part.status_code, part.content) == (206, b"\0\0\0\0")
    assert files.http.get(f"{files.base}/archive").json()["code"] == "file_too_large"


def test_an_upload_that_breaks_off_leaves_nothing(files):
    def half():
        yield b"x" * 100_000
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError), httpx.Client(base_url=files.http.base_url, headers=files.http.headers, trust_env=False) as http:
        http.put(files.file("f"), content=half())
    # The next upload is behind the end of that one.
    assert files.http.put(files.file("g"), content=b"x").status_code == 201
    listed = files.http.get(f"{files.base}/files").json()
    assert [entry["path"] for entry in listed["entries"]] == ["g"]
