"""Tables and charts as data, in the two MIME types that E2B's clients read.

A session of such a client has `E2B_SANDBOX=true` in its environment; only there are they added. `e2b/data` is a pandas frame as
`{column: [values]}`. `e2b/chart` is a matplotlib figure: one chart, or a `superchart` of one for each of its axes. What is large has
neither. Images of Pillow that are saved under a name are shown there too.
"""

import functools
import json
import os

from himalia_kernel import on_import, statics

_MARK = "E2B_SANDBOX"
# Cells of a frame, axes of a figure, points of one of its axes, and characters of either as JSON.
_CELLS = 200_000
_AXES = 32
_POINTS = 50_000
_TEXT = 4 * 1024 * 1024


def install(formatter):
    """Let a `DisplayFormatter` add the two."""
    plain = formatter.format

    def with_data(obj, include=None, exclude=None):
        data, metadata = plain(obj, include=include, exclude=exclude)
        if os.environ.get(_MARK) == "true" and type(data) is dict:
            try:
                data = data | _more(obj, data)
            except Exception:  # what is shown without them is better than nothing
                return data, metadata
        return data, metadata

    formatter.format = with_data
    on_import.call({"PIL.Image": _show_saved_images})


def _show_saved_images(module):
    """As E2B's kernel does."""
    plain = module.Image.save

    @functools.wraps(plain)
    def save(image, fp, *args, **options):
        if isinstance(fp, str) and os.environ.get(_MARK) == "true":
            from IPython.display import display

            display(image)
        return plain(image, fp, *args, **options)

    module.Image.save = save


def _more(thing, data):
    frame = statics.loaded_class("pandas.core.frame", "DataFrame")
    figure = statics.loaded_class("matplotlib.figure", "Figure")
    if frame is not None and statics.is_instance(thing, frame):
        kind, found = "e2b/data", _columns(thing)
    elif figure is not None and "image/png" in data and statics.is_instance(thing, figure):
        kind, found = "e2b/chart", _figure(thing)
    else:
        return {}
    if found is None or len(json.dumps(found)) > _TEXT:
        return {}
    return {kind: found}


def _columns(frame):
    from himalia_kernel.plain import plain_json

    if frame.shape[0] * frame.shape[1] > _CELLS:
        return None
    columns = {str(name): _values(frame[name]) for name in frame.columns if frame.columns.is_unique}
    return plain_json(columns) if len(columns) == frame.shape[1] else None


def _values(column):
    return column.astype(object).where(column.notna(), None).tolist()


def _figure(figure):
    from himalia_kernel import e2b_charts  # loaded when first needed, as the start of a kernel should be quick
    from himalia_kernel.plain import plain_json

    axes = figure.get_axes()
    if not axes or len(axes) > _AXES:
        return None
    charts = [e2b_charts.of(one, _POINTS) for one in axes]
    charts = [one for one in charts if one is not None]
    if not charts:
        return None
    if len(charts) == 1:
        return plain_json(charts[0])
    title = figure.get_suptitle()
    return plain_json({"type": "superchart", "title": title, "elements": charts})
