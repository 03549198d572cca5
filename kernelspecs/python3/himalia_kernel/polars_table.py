"""A polars frame or series, sorted, filtered and paged. Columns of Python objects are left out."""

from himalia_kernel.cells import cell, stream
from himalia_kernel.queries import COMPARE


class Table:
    """One table; `length` is the number of its rows."""

    needs_pyarrow = False

    def __init__(self, thing):
        import polars

        frame = thing.to_frame() if type(thing) is polars.Series else thing
        self._frame = frame.select([name for name, dtype in frame.schema.items() if dtype != polars.Object])
        self.length = frame.height

    def columns(self):
        """Names and dtypes."""
        return [{"name": name[:200], "dtype": str(dtype)[:200]} for name, dtype in self._frame.schema.items()]

    def rows(self, query, most):
        """Return `(rows that match, None, rows of at most `most` cells)`."""
        matched, page = self._page(query, most)
        return matched, None, [[cell(value) for value in row] for row in page.rows()]

    def arrow(self, query, most):
        """Return `(rows that match, an Arrow IPC stream, 0)`."""
        matched, page = self._page(query, most)
        return matched, stream(page.write_ipc_stream), 0

    def _page(self, query, most):
        import polars

        frame = self._frame
        try:
            for condition in query.filters:
                frame = frame.filter(self._mask(condition))
            if query.sort_by is not None:
                by = self._column(query.sort_by)
                frame = frame.sort(by, descending=query.descending, nulls_last=True, maintain_order=True)
        except polars.exceptions.PolarsError as problem:
            raise ValueError(f"sort or filter: {problem}") from None
        return frame.height, frame.select(frame.columns[:most]).slice(query.offset, query.limit)

    def _column(self, wanted):
        import polars

        columns = self._frame.columns
        if wanted in columns:
            return polars.col(wanted)
        if type(wanted) is int and 0 <= wanted < len(columns):
            return polars.col(columns[wanted])
        raise ValueError(f"there is no column {wanted!r}")

    def _mask(self, condition):
        column = self._column(condition.column)
        if condition.operator == "is_null":
            return column.is_null()
        if condition.operator == "not_null":
            return column.is_not_null()
        if condition.operator == "contains":
            return column.str.contains(condition.value, literal=True)
        return COMPARE[condition.operator](column, condition.value)
