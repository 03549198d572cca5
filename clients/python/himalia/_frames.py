"""Frames and series of a session as they are there: Arrow has no index, no labels but text, and no name twice."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import pyarrow

# Where the kernel says in the schema what Arrow cannot.
_KEY = b"himalia"


def joined(parts: list[pyarrow.Table]) -> pyarrow.Table:
    """The rows of all parts. Their columns are the same ones, in the same order; a name can be there twice."""
    import pyarrow

    names = parts[0].column_names
    plain = [part.rename_columns([str(number) for number in range(len(names))]) for part in parts]
    rows = pyarrow.concat_tables(plain, promote_options="permissive").rename_columns(names)
    return rows.replace_schema_metadata(parts[0].schema.metadata)


def known_types() -> None:
    """Let pyarrow read periods and intervals of pandas. To be called before a table is read."""
    try:
        importlib.import_module("pandas.core.arrays.arrow.extension_types")
    except ImportError:  # no pandas, or another one: they arrive as what they are stored as
        pass


def to_pandas(rows: pyarrow.Table, index_columns: int) -> pandas.DataFrame | pandas.Series[Any]:
    """The frame or series with its labels and its index."""
    import pandas

    told = json.loads((rows.schema.metadata or {}).get(_KEY, b"{}"))
    names = rows.column_names
    frame = rows.rename_columns([str(number) for number in range(len(names))]).to_pandas()
    for number, ordered in (told.get("categories") or {}).items():
        frame[number] = pandas.Categorical(frame[number], ordered=ordered)
    levels = [str(number) for number in range(index_columns)]
    if levels:
        frame = frame.set_index(levels)
        frame.index.names = told.get("index") or names[:index_columns]
    if told.get("range"):
        start, step = told["range"]
        frame.index = pandas.RangeIndex(start, start + step * len(frame), step, name=frame.index.name)
    labels = told.get("columns") or names[index_columns:]
    if told.get("levels"):
        frame.columns = pandas.MultiIndex.from_tuples([tuple(label) for label in labels], names=told["levels"])
    else:
        frame.columns = pandas.Index(labels, name=told.get("columns_name"))
    if told.get("series"):
        return frame.iloc[:, 0].rename(labels[0])
    return frame
