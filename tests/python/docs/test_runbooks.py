"""The runbook of a damaged database, typed as it stands in docs/operate/runbooks.md."""

import re
import sqlite3
import subprocess

import pytest
from pages import ROOT, blocks
from servers import Himalia

PAGE = ROOT / "docs" / "operate" / "runbooks.md"
NAMES = ("himalia.db", "himalia.db-wal", "himalia.db-shm")


def repair():
    """The block of commands that saves a damaged database."""
    return re.search(r"<!-- repair -->\n```sh\n(.*?)^```$", PAGE.read_text(), re.S | re.M)[1]


def damage(file):
    """Overwrites the page of one table, as a failing disk does."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'usage'").fetchone()
    versions = connection.execute("PRAGMA user_version").fetchone(), connection.execute("PRAGMA application_id").fetchone()
    connection.close()
    with file.open("r+b") as opened:
        opened.seek((page - 1) * size)
        opened.write(b"\xff" * size)
    return versions


def test_the_rows_of_a_damaged_database_are_saved(tmp_path):
    own = Himalia(tmp_path / "gateway")
    made = own.http.post("v1/tokens", json={"caller": "kept", "scope": "read"}).json()
    own.stop()
    data, copy = tmp_path / "gateway" / "data", tmp_path / "copy"
    copy.mkdir()
    versions = damage(data / NAMES[0])
    with pytest.raises(AssertionError, match="himalia ended with"):
        own.start()
    assert "the database is damaged" in own.log.read_text()
    own.process.stdout.close()
    for name in NAMES:
        if (data / name).exists():
            (data / name).rename(copy / name)

    done = subprocess.run(["bash", "-c", repair()], cwd=copy, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", f"{done.stdout}\n{done.stderr}"

    (copy / "saved.db").rename(data / NAMES[0])
    (data / NAMES[0]).chmod(0o600)
    own.start()
    try:
        assert made["id"] in [token["id"] for token in own.http.get("v1/tokens").json()["tokens"]]
    finally:
        own.stop()
    saved = sqlite3.connect(data / NAMES[0])
    assert (saved.execute("PRAGMA user_version").fetchone(), saved.execute("PRAGMA application_id").fetchone()) == versions
    saved.close()


def test_the_runbook_names_no_schema_version():
    # A number in the page is wrong as soon as the schema changes.
    assert not re.search(r"(user_version|application_id)\s*=\s*\d", PAGE.read_text())


def test_a_dump_without_the_change_saves_nothing(tmp_path):
    file = tmp_path / NAMES[0]
    connection = sqlite3.connect(file)
    connection.executescript("CREATE TABLE usage (x); CREATE TABLE kept (x); INSERT INTO kept VALUES (1);")
    connection.close()
    damage(file)
    without = re.sub(r" \| sed '.*?'", "", repair())
    assert without != repair()
    subprocess.run(["bash", "-c", without], cwd=tmp_path, capture_output=True, timeout=60)
    saved = sqlite3.connect(tmp_path / "saved.db")
    assert saved.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    saved.close()
