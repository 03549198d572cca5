"""One of the axes of a matplotlib figure as a chart: what it is, its titles and labels, and its values.

What is drawn decides what it is, in this order: wedges are a pie; boxes with whiskers a box plot; containers of bars bars; points
without a line a scatter plot; lines a line plot. Axes with anything else are `unknown`, and empty ones are no chart.
"""

import datetime
import re

from himalia_kernel import statics

_UNIT = re.compile(r"\(([^()]+)\)\s*$")


def of(axes, points):
    """The chart, or None if nothing is drawn, or more than so many points."""
    for read in (_pie, _boxes, _bars, _scatter, _lines):
        found = read(axes)
        if found is not None:
            kind, elements, more = found
            count = sum(len(one.get("points", ())) or 1 for one in elements)
            return {"type": kind, "title": axes.get_title() or None, **more, "elements": elements} if count <= points else None
    if axes.lines or axes.patches or axes.collections or axes.images:
        return {"type": "unknown", "title": axes.get_title() or None, "elements": []}
    return None


def _artists(artists, module, name):
    cls = statics.loaded_class(module, name)
    return [one for one in artists if cls is not None and statics.is_instance(one, cls)]


def _named(label, number, word):
    """What a series is called; matplotlib's own names for what has none begin with an underscore."""
    label = str(label)
    return f"{word} {number}" if label.startswith("_") or not label else label


# Axes


def _labels(axes):
    found = {}
    for side in ("x", "y"):
        label = getattr(axes, f"get_{side}label")()
        unit = _UNIT.search(label)
        found[f"{side}_label"] = label or None
        found[f"{side}_unit"] = unit[1] if unit else None
    return found


def _scales(axes):
    found = _labels(axes)
    for side in ("x", "y"):
        axis = getattr(axes, f"{side}axis")
        read = _reader(axis)
        ticks = getattr(axes, f"get_{side}ticks")()
        found[f"{side}_ticks"] = [read(tick) for tick in ticks]
        found[f"{side}_tick_labels"] = [text.get_text() for text in getattr(axes, f"get_{side}ticklabels")()]
        found[f"{side}_scale"] = _scale(axis)
    return found


def _scale(axis):
    if _is_date(axis):
        return "datetime"
    return "categorical" if _categories(axis) is not None else axis.get_scale()


def _is_date(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return "Date" in statics.type_name(type(converter))


def _categories(axis):
    mapping = getattr(getattr(axis, "units", None), "_mapping", None)
    return {number: name for name, number in mapping.items()} if mapping else None


def _reader(axis):
    """How a number on this axis is shown as data."""
    if _is_date(axis):
        from matplotlib.dates import num2date

        return lambda number: num2date(number).replace(tzinfo=None).isoformat()
    categories = _categories(axis)
    if categories is not None:
        return lambda number: categories.get(int(number), float(number))
    return float


def _points_of(axes, x, y):
    read_x, read_y = _reader(axes.xaxis), _reader(axes.yaxis)
    return [[_value(one, read_x), _value(other, read_y)] for one, other in zip(x, y, strict=True)]


def _value(value, read):
    if isinstance(value, datetime.date):
        return value.isoformat()
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)


# Lines and points


def _lines(axes):
    lines = _artists(axes.lines, "matplotlib.lines", "Line2D")
    if not lines:
        return None
    elements = [
        {"label": _named(line.get_label(), number, "Line"), "points": _points_of(axes, line.get_xdata(False), line.get_ydata(False))}
        for number, line in enumerate(lines)
    ]
    return "line", elements, _scales(axes)


def _scatter(axes):
    clouds = _artists(axes.collections, "matplotlib.collections", "PathCollection")
    if not clouds:
        return None
    elements = [
        {"label": _named(cloud.get_label(), number, "Dots"), "points": _points_of(axes, *cloud.get_offsets().T)}
        for number, cloud in enumerate(clouds)
    ]
    return "scatter", elements, _scales(axes)


# Bars


def _bars(axes):
    containers = _artists(axes.containers, "matplotlib.container", "BarContainer")
    if not containers:
        return None
    across = containers[0].orientation == "horizontal"
    axis = axes.yaxis if across else axes.xaxis
    names = _tick_names(axis)
    elements = []
    for number, container in enumerate(containers):
        group = _named(container.get_label(), number, "Bars")
        for bar in container.patches:
            middle = bar.get_y() + bar.get_height() / 2 if across else bar.get_x() + bar.get_width() / 2
            value = bar.get_width() if across else bar.get_height()
            elements.append({"label": names(middle), "group": group, "value": value})
    return "bar", elements, _labels(axes)


def _tick_names(axis):
    """What the place of a bar or a box is called: by the nearest tick, if that is at it, else by its number."""
    ticks = [(float(tick), text.get_text()) for tick, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)]
    read = _reader(axis)

    def name(place):
        near = min(ticks, key=lambda tick: abs(tick[0] - place), default=None)
        if near is not None and abs(near[0] - place) < 0.5 and near[1]:
            return near[1]
        return str(_value(place, read))

    return name


# Pies


def _pie(axes):
    wedges = _artists(axes.patches, "matplotlib.patches", "Wedge")
    if not wedges:
        return None
    elements = [
        {"label": _named(wedge.get_label(), number, "Wedge"), "angle": round(wedge.theta2 - wedge.theta1, 4), "radius": wedge.r}
        for number, wedge in enumerate(wedges)
    ]
    return "pie", elements, {}


# Box plots: matplotlib draws a box as a line or a patch, and around it lines of two points.


def _boxes(axes):
    lines = _artists(axes.lines, "matplotlib.lines", "Line2D")
    strokes = [line for line in lines if len(line.get_xdata()) == 2]
    dots = [line for line in lines if line.get_linestyle() == "None"]
    patches = _artists(axes.patches, "matplotlib.patches", "PathPatch")
    frames = [line.get_xydata() for line in lines if len(line.get_xdata()) == 5]
    frames += [patch.get_path().vertices[:5] for patch in patches if len(patch.get_path().vertices) in (5, 6)]
    if not frames or len(strokes) < 5 * len(frames):
        return None
    for across in (False, True):
        place, value = (1, 0) if across else (0, 1)
        boxes = [_box(frame, strokes, dots, place, value) for frame in frames]
        if all(boxes):
            names = _tick_names(axes.yaxis if across else axes.xaxis)
            return "box_and_whisker", [{"label": names(box.pop("place")), **box} for box in boxes], _labels(axes)
    return None


def _box(frame, strokes, dots, place, value):
    """What one box says, or None if it has no whiskers in this direction."""
    left, right = frame[:, place].min(), frame[:, place].max()
    low, high = frame[:, value].min(), frame[:, value].max()
    middle = (left + right) / 2
    close = (right - left) * 1e-6 or 1e-9
    ends, medians = [], []
    for stroke in strokes:
        data = stroke.get_xydata()
        places, values = data[:, place], data[:, value]
        if abs(places - middle).max() < close:
            ends.append((values.min(), values.max()))
        elif abs(places.min() - left) < close and abs(places.max() - right) < close and low <= values[0] <= high:
            medians.append(values[0])
    below = [end for end in ends if end[1] <= low + close]
    above = [end for end in ends if end[0] >= high - close]
    if not below or not above or not medians:
        return None
    outliers = []
    for dot in dots:
        data = dot.get_xydata()
        if len(data) and abs(data[:, place] - middle).max() < close:
            outliers.extend(float(one) for one in data[:, value])
    return {
        "place": middle,
        "min": min(end[0] for end in below),
        "first_quartile": low,
        "median": medians[0],
        "third_quartile": high,
        "max": max(end[1] for end in above),
        "outliers": outliers,
    }
