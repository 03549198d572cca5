"""Single values of a page."""

import io
import math

from himalia_kernel import previews

# Characters of one cell.
CELL = 1000
# Larger integers lose digits in JavaScript, so they are sent as text.
_SAFE_INTEGER = 1 << 53


class Unsupported(Exception):
    """What is asked for is not possible with this variable or in this environment."""


def cell(value, missing=()):
    """A value as JSON. `missing`: objects that stand for no value."""
    cls = type(value)
    if value is None or cls is bool or any(value is one for one in missing):
        return value if cls is bool else None
    if cls is int:
        return value if -_SAFE_INTEGER <= value <= _SAFE_INTEGER else previews.text(value, CELL)
    if cls is float:
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if cls is str:
        return value if len(value) <= CELL else value[:CELL] + "…"
    return previews.text(value, CELL)


def stream(write):
    """What `write(file)` writes, as bytes."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()
