"""Files below the directories of artifacts go to the gateway after each execution, within bounds."""

import os
import sys

import pytest
from rawkernel import PACKAGE

sys.path.insert(0, str(PACKAGE))
from himalia_kernel import artifacts, files  # noqa: E402


class Kernel:
    """Keeps what is published."""

    iopub_socket = None

    def __init__(self):
        self.sent = []

    def _topic(self, name):
        return name.encode()

    def send_response(self, _socket, kind, content, ident, buffers):
        """As of ipykernel."""
        assert (kind, ident) == ("himalia_artifact", b"display_data")
        self.sent.append((content["name"], content["media_type"], buffers[0]))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """`(kernel, a function that sends, the directory below the work directory, the other one)`."""
    work, temporary = tmp_path / "session", tmp_path / "tmp" / "artifacts"
    (work / "artifacts").mkdir(parents=True)
    monkeypatch.setattr(artifacts, "_WORK", str(work))
    monkeypatch.setattr(artifacts, "_TEMPORARY", str(temporary))
    kernel = Kernel()
    made = artifacts.Artifacts(kernel)
    made.prepare(str(work))
    assert temporary.is_dir()
    return kernel, lambda since: made.send(str(work), since), work / "artifacts", temporary


def test_each_writing_is_sent_once(place):
    kernel, send, kept, temporary = place
    since = files.stamp()
    (kept / "deep").mkdir()
    (kept / "deep" / "a.csv").write_text("1,2")
    (temporary / "no-type").write_bytes(b"x")
    assert send(since) is None
    assert kernel.sent == [("deep/a.csv", "text/csv", b"1,2"), ("no-type", "application/octet-stream", b"x")]
    assert send(since) is None
    assert len(kernel.sent) == 2


def test_links_pipes_and_what_cannot_be_read_are_not_sent(place):
    kernel, send, kept, temporary = place
    since = files.stamp()
    (kept / "passwd").symlink_to("/etc/passwd")
    (kept / "etc").symlink_to("/etc")
    os.mkfifo(kept / "pipe")
    outside = kept.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("a")
    temporary.rmdir()
    temporary.symlink_to(outside)
    assert send(since) is None
    assert kernel.sent == []
    # Nor what becomes one after the walk.
    for name in ("passwd", "pipe"):
        assert artifacts._read(kept / name)[::2] == (None, "unreadable")


def test_what_is_left_out_is_said(place, monkeypatch):
    kernel, send, kept, temporary = place
    monkeypatch.setattr(artifacts, "FILE_BYTES", 10)
    monkeypatch.setattr(artifacts, "TOTAL_BYTES", 25)
    monkeypatch.setattr(artifacts, "FILES_LIMIT", 4)
    since = files.stamp()
    (kept / "a").write_bytes(b"x" * 11)
    (kept / "b").write_bytes(b"x" * 10)
    (kept / "c").write_bytes(b"x" * 10)
    (kept / "d").write_bytes(b"x" * 10)
    (kept / "e").write_bytes(b"x" * 2)
    (temporary / "b").write_bytes(b"y")
    (temporary / "f").write_bytes(b"x")
    (temporary / "g").write_bytes(b"x")
    said = send(since)
    assert [name for name, _, _ in kernel.sent] == ["b", "c", "e", "f"]
    left = [("a", 11, "too_large"), ("d", 10, "too_many"), ("b", 1, "same_name"), ("g", 1, "too_many")]
    assert said == {"files": [{"name": name, "bytes": size, "reason": reason} for name, size, reason in left], "more": 0, "truncated": False}
    since = files.stamp()
    for n in range(artifacts.NAMED_LIMIT + 7):
        (kept / f"n{n:02}").write_bytes(b"x" * 11)
    said = send(since)
    assert (len(said["files"]), said["more"]) == (artifacts.NAMED_LIMIT, 7)
    # What a walk does not reach.
    monkeypatch.setattr(files, "ENTRIES_LIMIT", 3)
    assert send(since) == {"files": [], "more": 0, "truncated": True}


def test_elsewhere_nothing_is_kept(tmp_path):
    kernel = Kernel()
    made = artifacts.Artifacts(kernel)
    made.prepare(str(tmp_path))
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "a").write_text("a")
    assert made.send(str(tmp_path), 0) is None
    assert kernel.sent == []
