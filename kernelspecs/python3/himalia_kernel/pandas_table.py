"""A pandas frame or series, sorted, filtered and paged without running code of the objects in it.

pandas itself is imported already whenever this is used. Columns whose dtype the user made are left out. A column of
objects is sorted or compared only if all that is in it are strings, numbers or dates.
"""

import json

from himalia_kernel import previews, statics
from himalia_kernel.cells import CELL, Unsupported, cell, stream
from himalia_kernel.queries import COMPARE

# Rows of a table that are sorted or filtered, since that takes the kernel's memory.
ROWS = 20_000_000
# Items of the lists in a column that are sent as lists, and what may be in one.
_ITEMS = 1_000_000
_NONE = type(None)
_PLAIN = ({str, _NONE}, {bool, _NONE}, {int, float, _NONE})
# Answers of pandas about a column of objects whose comparison runs no code of the user's.
_COMPARABLE = (
    *("string", "bytes", "integer", "floating", "mixed-integer-float"),
    *("boolean", "decimal", "datetime", "date", "empty"),
)


class Table:
    """One table; `length` is the number of its rows."""

    needs_pyarrow = True

    def __init__(self, thing):
        import pandas

        self._missing = (pandas.NaT, pandas.NA)
        # A series, with its name.
        self._series = (thing.name,) if type(thing) is pandas.Series else None
        if type(thing) is pandas.Series:
            thing = thing.to_frame()
        known = [number for number, dtype in enumerate(thing.dtypes) if statics.is_of_library(dtype)]
        self._frame = thing if len(known) == thing.shape[1] else thing.iloc[:, known]
        self.length = len(thing)

    def columns(self):
        """Names and dtypes."""
        return [
            {"name": previews.text(label) if type(label) is not str else label[: previews.TEXT], "dtype": str(dtype)}
            for label, dtype in zip(self._frame.columns, self._frame.dtypes, strict=True)
        ]

    def rows(self, query, most):
        """Return `(rows that match, labels of the page's rows, rows of at most `most` cells)`."""
        matched, page = self._page(query)
        columns = [self._cells(page.iloc[:, number]) for number in range(min(most, page.shape[1]))]
        rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(len(page))]
        return matched, [cell(label, self._missing) for label in page.index.tolist()], rows

    def arrow(self, query, most):
        """Return `(rows that match, an Arrow IPC stream, number of its first columns that are the index)`."""
        import pandas
        import pyarrow

        matched, page = self._page(query)
        index = page.index
        levels = [index.get_level_values(number).to_series() for number in range(index.nlevels)]
        columns = [page.iloc[:, number] for number in range(min(most, page.shape[1]))]
        categories, arrays = {}, []
        # All pages of a table are decided alike.
        whole = self._frame.index
        whole = [whole.get_level_values(number).to_series() for number in range(whole.nlevels)]
        whole += [self._frame.iloc[:, number] for number in range(len(columns))]
        for number, column in enumerate((*levels, *columns)):
            if _is_of_intervals(column):
                # Arrow has no categories of this kind.
                categories[str(number)] = bool(column.dtype.ordered)
                column = column.astype(column.dtype.categories.dtype)
            if type(column.dtype) is pandas.SparseDtype:
                column = column.sparse.to_dense()
            try:
                made = pyarrow.array(self._arrow_ready(column, whole[number]), from_pandas=True)
            except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
                # Arrow has no such values: complex numbers, large integers, text that is no Unicode.
                made = pyarrow.array(self._texts(column))
            arrays.append(made)
        names = ["index" if name is None else previews.text(name) if type(name) is not str else name for name in index.names]
        names += [name["name"] for name in self.columns()[:most]]
        table = pyarrow.Table.from_arrays(arrays, names=[_unicode(name) for name in names])
        told = self._labels(page, most) | {"categories": categories}
        table = table.replace_schema_metadata({"himalia": json.dumps(told)})

        def write(file):
            with pyarrow.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)

        return matched, stream(write), index.nlevels

    def _labels(self, page, most):
        """What Arrow has no place for: labels that are no text, names of the index and of the columns, and that it is a series."""
        import pandas

        columns, index = page.columns[:most], page.index
        told = {"index": [_label(name) for name in index.names], "series": self._series is not None}
        if type(index) is pandas.RangeIndex:
            told["range"] = [index.start, index.step]
        if columns.nlevels > 1:
            told["levels"] = [_label(name) for name in columns.names]
            told["columns"] = [[_label(part) for part in label] for label in columns.tolist()]
        else:
            told["columns_name"] = _label(columns.name)
            told["columns"] = [_label(label) for label in (self._series or columns.tolist())]
        return told

    def _page(self, query):
        import numpy

        frame = self._frame
        if not query.filters and query.sort_by is None:
            return self.length, frame.iloc[query.offset : query.offset + query.limit]
        if self.length > ROWS:
            raise Unsupported(f"a table of {self.length} rows is not sorted or filtered here, {ROWS} are the most")
        chosen = None
        for condition in query.filters:
            mask = self._mask(condition)
            chosen = mask if chosen is None else chosen & mask
        positions = numpy.arange(self.length) if chosen is None else numpy.flatnonzero(chosen)
        if query.sort_by is not None:
            column = self._column(query.sort_by).iloc[positions]
            if not _is_comparable(column):
                raise Unsupported(f"column {query.sort_by!r}: sorting it would run code of the objects in it")
            order = column.array.argsort(ascending=not query.descending, kind="stable", na_position="last")
            positions = positions[order]
        return len(positions), frame.iloc[positions[query.offset : query.offset + query.limit]]

    def _column(self, wanted):
        """By its label; else by the text of a label, else by its number."""
        labels = self._frame.columns.tolist()
        for number, label in enumerate(labels):
            if type(label) is type(wanted) and label == wanted:
                return self._frame.iloc[:, number]
        for number, label in enumerate(labels):
            if type(wanted) is str and previews.text(label) == wanted:
                return self._frame.iloc[:, number]
        if type(wanted) is int and 0 <= wanted < len(labels):
            return self._frame.iloc[:, wanted]
        raise ValueError(f"there is no column {wanted!r}")

    def _mask(self, condition):
        column = self._column(condition.column)
        if condition.operator == "is_null":
            return column.isna().to_numpy(dtype=bool)
        if condition.operator == "not_null":
            return column.notna().to_numpy(dtype=bool)
        if not _is_comparable(column):
            raise Unsupported(f"column {condition.column!r}: comparing it would run code of the objects in it")
        try:
            if condition.operator == "contains":
                found = column.str.contains(condition.value, regex=False, na=False)
            else:
                found = COMPARE[condition.operator](column, condition.value)
        except (TypeError, AttributeError, ValueError) as problem:
            raise ValueError(f"filter: column {condition.column!r} of {column.dtype}: {problem}") from None
        return found.fillna(False).to_numpy(dtype=bool)

    def _cells(self, column):
        return [cell(value, self._missing) for value in column.tolist()]

    def _arrow_ready(self, column, whole):
        """A part of a column. One of objects that are not all of one plain kind, or lists of one, becomes text."""
        if _is_comparable(whole):
            return column
        missing = (None, *self._missing)
        if _has_plain_lists(whole, missing):
            return [None if any(value is one for one in missing) else value for value in column.tolist()]
        return self._texts(column)

    def _texts(self, column):
        missing = (None, *self._missing)
        return [
            None if any(value is one for one in missing) else _unicode(value if type(value) is str else previews.text(value, CELL))
            for value in column.tolist()
        ]


def _unicode(text):
    """A text with U+FFFD for halves of surrogate pairs, as names of files have them that are not UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _label(label):
    """A label as JSON."""
    return label if label is None or type(label) in (bool, int, float, str) else previews.text(label)


def _is_of_intervals(column):
    import pandas

    dtype = column.dtype
    return type(dtype) is pandas.CategoricalDtype and type(dtype.categories) is pandas.IntervalIndex


def _has_plain_lists(column, missing):
    """Whether a column has nothing but lists of numbers or of texts."""
    kinds, left = set(), _ITEMS
    for value in column.array:
        if any(value is one for one in missing):
            continue
        if type(value) is not list:
            return False
        left -= len(value) + 1
        if left < 0:
            return False
        kinds.update(map(type, value))
        if not any(kinds <= plain for plain in _PLAIN):
            return False
    return left < _ITEMS


def _is_comparable(column):
    import pandas

    return column.dtype != object or pandas.api.types.infer_dtype(column, skipna=True) in _COMPARABLE
