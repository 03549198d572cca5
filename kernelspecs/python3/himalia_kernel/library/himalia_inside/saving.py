"""What a tool has returned, as a file."""

import json
import os
import pathlib
import tempfile
from typing import NamedTuple, Optional

_TABLES = (".arrow", ".parquet")


class Saved(NamedTuple):
    """A file that was written: its path, its size, and the rows of a table or of lines. `files` are those of the reply."""

    path: str
    bytes: int
    rows: Optional[int]
    files: list

    def __repr__(self):
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"Saved({self.path!r}, {self.bytes} bytes{rows})"


def check(path):
    """Refuse what could not be written, before anything is called."""
    path = pathlib.Path(path)
    if path.suffix in _TABLES:
        _arrow()
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent}")
    return path


def _arrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("a file of this kind needs pyarrow; .json and .jsonl need nothing") from None
    return pyarrow


def rows_of(content):
    """The rows of a table: a list of objects, or the only list of objects that is a member of an object."""
    lists = [content] if isinstance(content, list) else list(content.values()) if isinstance(content, dict) else []
    lists = [one for one in lists if isinstance(one, list) and all(isinstance(row, dict) for row in one)]
    if len(lists) != 1:
        raise ValueError("the reply is no table: it is no list of objects, and has not one such list as a member")
    return lists[0]


def _write(path, reply):
    """Write the content. Return the number of rows, if there are some."""
    content = reply.content
    if path.suffix in _TABLES:
        pyarrow = _arrow()
        rows = rows_of(content)
        table = pyarrow.Table.from_pylist(rows)
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        return len(rows)
    if content in (None, "") and len(reply.files) == 1:
        path.write_bytes(reply.files[0].data)
        return None
    if path.suffix == ".jsonl":
        rows = rows_of(content)
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return len(rows)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return None


def save(path, reply):
    """Write a reply to a path, whole or not at all. The ending says how: `.arrow`, `.parquet`, `.jsonl`; all others are JSON, or text."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".himalia-") as directory:
        part = pathlib.Path(directory) / path.name
        rows = _write(part, reply)
        size = part.stat().st_size
        os.replace(part, path)
    return Saved(str(path), size, rows, reply.files)
