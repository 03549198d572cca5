"""What is known of a matplotlib figure when it is shown, in the metadata of its display message under `himalia`.

`{"figure": {"width", "height"}}` in pixels, read from the PNG that is sent. If the package `e2b_charts` is installed,
also `"chart"`: the data of the plot in the form of that package, unless it is large.
"""

import base64
import binascii
import datetime
import enum
import importlib.util
import json
import math
import struct

from himalia_kernel import statics

KEY = "himalia"
# Points of a figure whose data is extracted, axes that are looked at, and characters of the data as JSON.
_POINTS = 10_000
_AXES = 32
_CHART = 256 * 1024

_SIGNATURE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
_DEPTH = 12


def install(formatter):
    """Let a `DisplayFormatter` add the metadata of figures."""
    plain = formatter.format

    def described(obj, include=None, exclude=None):
        data, metadata = plain(obj, include=include, exclude=exclude)
        try:
            found = _describe(obj, data)
        except Exception:  # a figure that is shown without it is better than none
            found = None
        return data, metadata | {KEY: found} if found else metadata

    formatter.format = described


def _describe(thing, data):
    figure = statics.loaded_class("matplotlib.figure", "Figure")
    if figure is None or "image/png" not in data or not statics.is_instance(thing, figure):
        return None
    found = {}
    size = png_size(data["image/png"])
    if size is not None:
        found["figure"] = {"width": size[0], "height": size[1]}
    chart = _chart(thing)
    if chart:
        found["chart"] = chart
    return found


def png_size(image):
    """Width and height of a PNG, given as bytes or as base64 text, or None."""
    start = len(_SIGNATURE)
    try:
        head = bytes(image[: start + 8]) if type(image) is bytes else base64.b64decode(image[:32])
    except (binascii.Error, ValueError, TypeError):
        return None
    return struct.unpack(">II", head[start : start + 8]) if head.startswith(_SIGNATURE) and len(head) >= start + 8 else None


def _chart(figure):
    """The data of a plot, by `e2b_charts` if that is there, or None."""
    if importlib.util.find_spec("e2b_charts") is None or _points(figure) > _POINTS:
        return None
    from e2b_charts import chart_figure_to_dict

    chart = plain_json(chart_figure_to_dict(figure))
    return chart if len(json.dumps(chart)) <= _CHART else None


def _points(figure):
    axes = figure.get_axes()
    if len(axes) > _AXES:
        return _POINTS + 1
    lines = sum(len(line.get_xdata()) for one in axes for line in one.lines)
    marks = sum(len(collection.get_offsets()) for one in axes for collection in one.collections)
    return lines + marks + sum(len(one.patches) + len(one.texts) for one in axes)


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
