"""What is known of a matplotlib figure when it is shown, in the metadata of its display message under `himalia`.

`{"figure": {"width", "height"}}` in pixels, read from the PNG that is sent. If the package `e2b_charts` is installed,
also `"chart"`: the data of the plot in the form of that package, unless it is large. `"plot"` is that of lines, scatters
and bars (`himalia_kernel.series`).
"""

import base64
import binascii
import importlib.util
import json
import struct
import sys

from himalia_kernel import statics

KEY = "himalia"
# Points of a figure whose data is extracted, axes that are looked at, and characters of the data as JSON.
_POINTS = 10_000
_AXES = 32
_CHART = 256 * 1024

_SIGNATURE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def install(formatter):
    """Let a `DisplayFormatter` add the metadata of figures."""
    plain = formatter.format

    def described(obj, include=None, exclude=None):
        _draw_as_png(formatter, obj)
        data, metadata = plain(obj, include=include, exclude=exclude)
        try:
            found = _describe(obj, data)
        except Exception:  # a figure that is shown without it is better than none
            found = None
        return data, metadata | {KEY: found} if found else metadata

    formatter.format = described


def show_once(shell):
    """A figure that is the value of a cell is not shown once more at the end of the cell, where the inline backend shows all."""
    hook = shell.displayhook
    plain = hook.compute_format_data

    def compute(result):
        made = plain(result)
        inline = sys.modules.get("matplotlib_inline.backend_inline")
        if inline is not None and _is_figure(result) and any(kind.startswith("image/") for kind in made[0]):
            if inline.InlineBackend.instance().close_figures:
                inline.Gcf.destroy_fig(result)  # as all of them are at the end
        return made

    hook.compute_format_data = compute


def _is_figure(thing):
    figure = statics.loaded_class("matplotlib.figure", "Figure")
    return figure is not None and statics.is_instance(thing, figure)


def _draw_as_png(formatter, thing):
    """The inline backend sees to it that figures are drawn. Where the code chose another one before, it was not loaded."""
    if "matplotlib_inline.backend_inline" in sys.modules or not _is_figure(thing):
        return
    if statics.loaded_class("matplotlib.figure", "Figure") not in formatter.formatters["image/png"].type_printers:
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(formatter.parent, {"png"})


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
    plot = _plot(thing)
    if plot:
        found["plot"] = plot
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

    from himalia_kernel.plain import plain_json

    chart = plain_json(chart_figure_to_dict(figure))
    return chart if len(json.dumps(chart)) <= _CHART else None


def _plot(figure):
    from himalia_kernel import series  # loaded when first needed, as the start of a kernel should be quick

    try:
        return series.of(figure)
    except Exception:  # an artist of another version of matplotlib; the rest is reported
        return None


def _points(figure):
    axes = figure.get_axes()
    if len(axes) > _AXES:
        return _POINTS + 1
    lines = sum(len(line.get_xdata()) for one in axes for line in one.lines)
    marks = sum(len(collection.get_offsets()) for one in axes for collection in one.collections)
    return lines + marks + sum(len(one.patches) + len(one.texts) for one in axes)
