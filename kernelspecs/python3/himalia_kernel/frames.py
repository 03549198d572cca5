"""What is known of a frame or a series when it is shown, in the metadata of its message under `himalia`.

`{"table": {"shape", "columns", "columns_total", "index", "rows"}}`: names and dtypes of the first columns, and the first
rows, as in a page of a variable (`himalia_kernel.pages`). No code of the objects in it is run.
"""

import json

from himalia_kernel import statics
from himalia_kernel.charts import KEY

# Rows and columns that are reported, characters of a cell, of all of it as JSON.
_ROWS = 5
_COLUMNS = 50
_CELL = 100
_TABLE = 16 * 1024


def install(formatter):
    """Let a `DisplayFormatter` add the metadata of frames and series."""
    plain = formatter.format

    def described(obj, include=None, exclude=None):
        data, metadata = plain(obj, include=include, exclude=exclude)
        try:
            found = describe(obj)
        except Exception:  # a frame that is shown without it is better than none
            found = None
        if found is None:
            return data, metadata
        return data, metadata | {KEY: metadata.get(KEY, {}) | {"table": found}}

    formatter.format = described


def describe(thing):
    """The beginning of a table, or None for everything else."""
    cls = type(thing)
    for module in ("pandas", "polars"):
        frame = cls is statics.loaded_class(module, "DataFrame")
        if frame or cls is statics.loaded_class(module, "Series"):
            table = _table(module, thing)
            return _fitting(table, list(thing.shape) if frame else [table.length])
    return None


def _table(module, thing):
    # Loaded when first needed, as the start of a kernel should be quick.
    if module == "pandas":
        from himalia_kernel import pandas_table

        return pandas_table.Table(thing)
    from himalia_kernel import polars_table

    return polars_table.Table(thing)


def _fitting(table, shape):
    from himalia_kernel.queries import Query

    columns = table.columns()
    _, index, rows = table.rows(Query(limit=_ROWS), _COLUMNS)
    found = {
        "shape": shape,
        "columns": columns[:_COLUMNS],
        "columns_total": len(columns),
        "index": None if index is None else [_short(label) for label in index],
        "rows": [[_short(value) for value in row] for row in rows],
    }
    while len(json.dumps(found)) > _TABLE:
        if not found["columns"]:
            return None
        kept = len(found["columns"]) // 2
        found["columns"] = found["columns"][:kept]
        found["rows"] = [row[:kept] for row in found["rows"]]
    return found


def _short(value):
    return value[:_CELL] + "…" if type(value) is str and len(value) > _CELL else value
