"""A pandas frame or series, sorted, filtered and paged without running code of the objects in it.

pandas itself is imported already whenever this is used. Columns whose dtype the user made are left out. A column of
objects is sorted or compared only if all that is in it are strings, numbers or dates.
"""

from himalia_kernel import previews, statics
from himalia_kernel.cells import CELL, Unsupported, cell, stream
from himalia_kernel.queries import COMPARE

# Rows of a table that are sorted or filtered, since that takes the kernel's memory.
ROWS = 20_000_000
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
        import pyarrow

        matched, page = self._page(query)
        index = page.index
        levels = [index.get_level_values(number).to_series() for number in range(index.nlevels)]
        columns = [page.iloc[:, number] for number in range(min(most, page.shape[1]))]
        arrays = [pyarrow.array(self._arrow_ready(column), from_pandas=True) for column in (*levels, *columns)]
        names = ["index" if name is None else previews.text(name) if type(name) is not str else name for name in index.names]
        names += [name["name"] for name in self.columns()[:most]]
        table = pyarrow.Table.from_arrays(arrays, names=names)

        def write(file):
            with pyarrow.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)

        return matched, stream(write), index.nlevels

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

    def _arrow_ready(self, column):
        """A column of objects that are not all of one plain kind becomes text."""
        if _is_comparable(column):
            return column
        missing = (None, *self._missing)
        return [
            None if any(value is one for one in missing) else value if type(value) is str else previews.text(value, CELL)
            for value in column.tolist()
        ]


def _is_comparable(column):
    import pandas

    return column.dtype != object or pandas.api.types.infer_dtype(column, skipna=True) in _COMPARABLE
