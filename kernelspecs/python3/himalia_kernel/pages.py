"""One page of the content of a variable, as JSON or as an Arrow stream, bounded in rows, columns and bytes."""

import importlib.util
from collections import deque
from itertools import islice

from himalia_kernel import pandas_table, polars_table, statics
from himalia_kernel.cells import Unsupported, cell

# Columns of a page, characters of all cells of a page as JSON, bytes of an Arrow stream.
COLUMNS = 200
PAGE = 4 * 1024 * 1024
ARROW_BYTES = 32 * 1024 * 1024


def of(thing, query):
    """Return `(fields of the reply, buffers)`."""
    cls = type(thing)
    for module, table in (("pandas", pandas_table.Table), ("polars", polars_table.Table)):
        if cls is statics.loaded_class(module, "DataFrame") or cls is statics.loaded_class(module, "Series"):
            return _table(table(thing), query)
    if query.arrow:
        raise Unsupported("format: only a frame or a series of pandas or polars can be had as Arrow")
    if query.sort_by is not None or query.filters:
        raise Unsupported("only a frame or a series of pandas or polars can be sorted and filtered")
    if cls is statics.loaded_class("numpy", "ndarray"):
        return _array(thing, query), []
    if cls is str:
        return _page("text", query, len(thing), text=thing[query.offset : query.offset + query.limit]), []
    if cls is dict:
        rows = list(islice(thing.items(), query.offset, query.offset + query.limit))
        return _items(query, len(thing), ["key", "value"], rows), []
    if cls is list or cls is tuple:
        rows = [(item,) for item in thing[query.offset : query.offset + query.limit]]
        return _items(query, len(thing), ["value"], rows), []
    if cls is set or cls is frozenset or cls is deque:
        rows = [(item,) for item in islice(thing, query.offset, query.offset + query.limit)]
        return _items(query, len(thing), ["value"], rows), []
    return {"kind": "object"}, []


def _page(kind, query, total, **more):
    return {"kind": kind, "page": {"offset": query.offset, "limit": query.limit, "total": total, **more}}


def _table(table, query):
    columns = table.columns()
    if query.arrow:
        if importlib.util.find_spec("pyarrow") is None and table.needs_pyarrow:
            raise Unsupported("format: arrow needs pyarrow, which is not installed here")
        matched, data, indexes = table.arrow(query, COLUMNS)
        if len(data) > ARROW_BYTES:
            raise Unsupported(f"format: {len(data)} bytes as Arrow, {ARROW_BYTES} are the most: ask for fewer rows")
        fields = {"matched": matched, "index_columns": indexes}
    else:
        matched, names, rows = table.rows(query, COLUMNS)
        rows, cut = _fitting(rows)
        index = None if names is None else names[: len(rows)]
        fields = {"matched": matched, "index": index, "rows": rows, "cut": cut}
        data = None
    fields["columns"] = columns[:COLUMNS]
    fields["columns_total"] = len(columns)
    return _page("table", query, table.length, **fields), [] if data is None else [data]


def _fitting(rows):
    """As many rows as a reply may have, and whether some were left out."""
    left = PAGE
    for number, row in enumerate(rows):
        left -= sum(len(one) if type(one) is str else 8 for one in row)
        if left < 0:
            return rows[:number], True
    return rows, False


def _items(query, total, columns, rows):
    rows, cut = _fitting([[cell(value) for value in row] for row in rows])
    return _page("items", query, total, columns=columns, rows=rows, cut=cut)


def _array(array, query):
    if array.dtype.kind == "V" or array.dtype.hasobject and array.dtype.kind != "O":
        raise Unsupported("an array of this dtype cannot be shown")
    if array.ndim > 2:
        raise Unsupported(f"an array of {array.ndim} dimensions cannot be shown as rows")
    total = array.shape[0] if array.ndim else 1
    some = array.reshape(1)[:1] if not array.ndim else array[query.offset : query.offset + query.limit]
    rows = some[:, :COLUMNS].tolist() if array.ndim == 2 else [[value] for value in some.tolist()]
    rows, cut = _fitting([[cell(value) for value in row] for row in rows])
    width = array.shape[1] if array.ndim == 2 else 1
    return _page("array", query, total, columns_total=width, rows=rows, cut=cut)
