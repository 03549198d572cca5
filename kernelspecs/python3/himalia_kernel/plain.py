"""Values as JSON can have them."""

import datetime
import enum
import math

_DEPTH = 12


def plain_json(value, depth=_DEPTH):
    """A value as JSON can have it: no NaN, no numpy scalars, no enums."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if depth <= 0:
        return None
    if isinstance(value, dict):
        return {str(key): plain_json(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(one, depth - 1) for one in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)[:200]
    return number if math.isfinite(number) else None
