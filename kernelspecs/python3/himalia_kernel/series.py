"""The data of a matplotlib figure: of each of its axes titles and labels, and the points of lines, scatters and bars.

Only artists of matplotlib's own classes are read. Of a series with many points every n-th is taken; `points` is how many
there were.
"""

import json

from himalia_kernel import statics
from himalia_kernel.plain import plain_json

# Axes of a figure, series of one, points of a series, characters of a text, of all of it as JSON.
_AXES = 16
_SERIES = 16
_POINTS = 100
_TEXT = 200
_CHART = 64 * 1024


def of(figure):
    """`{"axes": [{"title", "x", "y", "series": [{"kind", "label", "points", "x", "y"}]}]}`, or None if there is nothing."""
    axes = [found for found in map(_axes, figure.get_axes()[:_AXES]) if found["series"]]
    if not axes:
        return None
    chart = plain_json({"axes": axes})
    return chart if len(json.dumps(chart)) <= _CHART else None


def _axes(axes):
    series = [*map(_line, axes.lines), *map(_bars, axes.containers), *map(_points, axes.collections)]
    return {
        "title": axes.get_title()[:_TEXT],
        "x": axes.get_xlabel()[:_TEXT],
        "y": axes.get_ylabel()[:_TEXT],
        "series": [one for one in series if one is not None][:_SERIES],
    }


def _is(artist, module, name):
    cls = statics.loaded_class(module, name)
    return cls is not None and type(artist) is cls


def _line(line):
    if not _is(line, "matplotlib.lines", "Line2D"):
        return None
    return _series("line", line, line.get_xdata(), line.get_ydata())


def _points(collection):
    if not _is(collection, "matplotlib.collections", "PathCollection"):
        return None
    offsets = collection.get_offsets()
    return _series("scatter", collection, offsets[:, 0], offsets[:, 1])


def _bars(container):
    if not _is(container, "matplotlib.container", "BarContainer"):
        return None
    across = container.orientation == "horizontal"
    bars = container.patches
    ends = [bar.get_width() if across else bar.get_height() for bar in bars]
    middles = [bar.get_y() + bar.get_height() / 2 if across else bar.get_x() + bar.get_width() / 2 for bar in bars]
    x, y = (ends, middles) if across else (middles, ends)
    return _series("bar", container, x, y)


def _series(kind, artist, x, y):
    step = max(1, -(-len(x) // _POINTS))
    label = artist.get_label()
    return {
        "kind": kind,
        # matplotlib's own names for what has none begin like this.
        "label": None if type(label) is not str or label.startswith("_") else label[:_TEXT],
        "points": len(x),
        "x": list(x[::step]),
        "y": list(y[::step]),
    }
