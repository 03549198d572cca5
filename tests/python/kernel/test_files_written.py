"""Each reply says which files of the session's directory the execution wrote."""

import os
import sys
from pathlib import Path

import pytest
from observed import about
from rawkernel import PACKAGE, RawKernel
from waiting import eventually

sys.path.insert(0, str(PACKAGE))
from himalia_kernel import files  # noqa: E402

NOTHING = {"written": [], "truncated": False}


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python, env={"IPYTHONDIR": "/tmp/.no-profile"})
    yield kernel
    kernel.close()


def written(kernel, code):
    return about(kernel, code)["files"]


def bind(kernel, directory):
    """Bind a kernel, which may still be busy with the end of its last request."""
    content = {"cwd": str(directory)}
    eventually(lambda: kernel.request("himalia_bind_request", content, "control")["status"] == "ok", "bound", 30)


def test_files_that_an_execution_wrote(kernel):
    assert written(kernel, "from pathlib import Path; Path('a.csv').write_text('1')")["written"] == ["a.csv"]
    assert written(kernel, "Path('a.csv').read_text()") == NOTHING
    code = "Path('d/e').mkdir(parents=True); Path('d/e/b').touch(); Path('.hidden').mkdir(); Path('.hidden/c').touch()"
    assert written(kernel, code) == NOTHING | {"written": ["d/e/b"]}
    assert written(kernel, "import shutil, os; shutil.copy2('/etc/hostname', 'copied')")["written"] == ["copied"]
    assert written(kernel, "with open('a.csv', 'a') as f: f.write('2')")["written"] == ["a.csv"]
    assert written(kernel, "os.system('echo 1 > d/shell')")["written"] == ["d/shell"]
    assert written(kernel, "os.chdir('d'); Path('beside').touch()")["written"] == ["d/beside"]


def test_files_from_elsewhere_are_not_the_executions(kernel):
    """Except within one tick of the filesystem's clock."""
    uploaded = Path(kernel.directory.name) / "uploaded"
    uploaded.write_text("1")
    eventually(lambda: files.stamp() > uploaded.stat().st_ctime_ns, "the next tick")
    assert written(kernel, "import time; time.sleep(0.1)") == NOTHING


def test_a_bound_kernel_reports_its_sessions_directory(kernel_python, tmp_path):
    kernel = RawKernel(kernel_python)
    try:
        bind(kernel, tmp_path)
        assert written(kernel, "open('bound', 'w').close()") == NOTHING | {"written": ["bound"]}
    finally:
        kernel.close()


def test_a_kernel_whose_directory_was_removed_goes_on(kernel_python, tmp_path):
    kernel = RawKernel(kernel_python)
    try:
        place = tmp_path / "place"
        place.mkdir()
        bind(kernel, place)
        place.rmdir()
        report = about(kernel, "x = 1")
        assert report["variables"]["added"] == ["x"] and report["files"] == NOTHING
    finally:
        kernel.close()


def test_the_walk_is_bounded(tmp_path, monkeypatch):
    since = files.stamp()
    for number in range(30):
        (tmp_path / f"{number:02}").touch()
    every = [f"{number:02}" for number in range(30)]
    assert files.Walker().written(tmp_path, since, 10) == {"written": every, "truncated": False}
    monkeypatch.setattr(files, "PATHS_LIMIT", 10)
    cut = files.Walker().written(tmp_path, since, 10)
    assert cut["truncated"] and len(cut["written"]) == 10
    monkeypatch.setattr(files, "ENTRIES_LIMIT", 5)
    assert files.Walker().written(tmp_path, since, 10)["truncated"]


def test_executions_of_one_tick_name_each_writing_once(tmp_path):
    tick, walker = files.stamp(), files.Walker()
    for name in ("first", "second", "third"):
        (tmp_path / name).touch()
        assert walker.written(tmp_path, tick, 10)["written"] == [name]
    assert walker.written(tmp_path, tick, 10) == NOTHING


def test_a_small_directory_is_seen_whole_without_time(tmp_path):
    tick, names = files.stamp(), [f"{number:02}" for number in range(50)]
    for name in names:
        (tmp_path / name).touch()
    assert files.Walker().written(tmp_path, tick, 0) == {"written": names, "truncated": False}


def test_a_walk_that_is_out_of_time_says_so(tmp_path):
    for number in range(200):
        (tmp_path / f"{number}").touch()
    assert files.Walker().written(tmp_path, files.stamp() + 10**9, 0) == {"written": [], "truncated": True}


def test_links_and_names_that_are_no_text(tmp_path):
    since = files.stamp()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to("/etc/hostname")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    os.mkfifo(tmp_path / "pipe")
    assert files.Walker().written(tmp_path, since, 10) == {"written": ["?"], "truncated": False}
    assert files.Walker().written(tmp_path / "gone", since, 10) == NOTHING
