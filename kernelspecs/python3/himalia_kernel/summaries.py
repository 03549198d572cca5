"""A text for displays whose `text/plain` says nothing, in the metadata of their message under `himalia`: `{"summary": "…"}`.

Markdown is its source, HTML the text in it, a styled frame the frame as text; a figure of plotly has its title, axes and series.
"""

import re
from html.parser import HTMLParser
from itertools import islice

from himalia_kernel import statics
from himalia_kernel.charts import KEY

# Characters of a summary, of HTML that is read, of one name; series of a figure.
_TEXT = 8000
_HTML = 200_000
_NAME = 100
_SERIES = 16
PLOTLY = "application/vnd.plotly.v1+json"
_OBJECT = re.compile(r"<[\w.]+ (?:object|at 0x)[^>]*>")
_BLOCKS = {"br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "pre", "table", "tr", "ul"}
_HIDDEN = {"script", "style", "head", "title"}
_SPACES = re.compile(r"\s+")


def install(shell):
    """Let a shell's displays have summaries, also those that code publishes as data."""
    formatter, publisher = shell.display_formatter, shell.display_pub
    format_plain, publish_plain = formatter.format, publisher.publish

    def described(obj, include=None, exclude=None):
        data, metadata = format_plain(obj, include=include, exclude=exclude)
        return data, _with(metadata, data, obj)

    def publish(data, metadata=None, *args, **kwargs):
        return publish_plain(data, _with(metadata, data, None), *args, **kwargs)

    formatter.format, publisher.publish = described, publish


def _with(metadata, data, thing):
    known = (metadata or {}).get(KEY, {})
    if type(data) is not dict or "summary" in known:
        return metadata
    try:
        found = summary(data, thing)
    except Exception:  # a display without it is better than none
        found = None
    return (metadata or {}) | {KEY: known | {"summary": found[:_TEXT]}} if found else metadata


def summary(data, thing=None):
    """The text for a MIME bundle, and the object that it shows; None if it needs none."""
    if PLOTLY in data:
        return _plotly(data[PLOTLY])
    plain = data.get("text/plain")
    if plain is not None and (type(plain) is not str or not _OBJECT.fullmatch(plain)) or any(kind.startswith("image/") for kind in data):
        return None
    if thing is not None and type(thing) is statics.loaded_class("pandas.io.formats.style", "Styler"):
        return repr(thing.data)
    if type(data.get("text/markdown")) is str:
        return data["text/markdown"]
    if type(data.get("text/html")) is str:
        return _text_of(data["text/html"])
    return None


class _Text(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.pieces = []
        self.hidden = 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in _HIDDEN
        if tag in _BLOCKS:
            self.pieces.append("\n")
        elif tag in ("td", "th"):
            self.pieces.append("\t")

    def handle_endtag(self, tag):
        self.hidden -= tag in _HIDDEN and self.hidden > 0
        if tag in _BLOCKS:
            self.pieces.append("\n")

    def handle_data(self, data):
        if not self.hidden:
            self.pieces.append(_SPACES.sub(" ", data))


def _text_of(html):
    parser = _Text()
    parser.feed(html[:_HTML])
    parser.close()
    lines = ("".join(parser.pieces)).split("\n")
    lines = [" | ".join(_SPACES.sub(" ", cell).strip() for cell in line.strip().split("\t")) for line in lines]
    return "\n".join(line for line in lines if line.strip(" |"))


def _plotly(figure):
    layout, traces = figure.get("layout") or {}, figure.get("data") or []
    kinds = [_trace(trace) for trace in islice(traces, _SERIES)]
    if len(traces) > _SERIES:
        kinds.append(f"{len(traces) - _SERIES} more")
    axes = [f"{axis}: {name}" for axis in ("x", "y") if (name := _title(layout.get(f"{axis}axis")))]
    parts = [f"plotly figure {_title(layout)!r}" if _title(layout) else "plotly figure", *axes, "; ".join(kinds)]
    return f"[{', '.join(part for part in parts if part)}]"


def _title(thing):
    title = thing.get("title") if type(thing) is dict else None
    title = title.get("text") if type(title) is dict else title
    return title[:_NAME] if type(title) is str else None


def _trace(trace):
    kind = trace.get("type") or "scatter"
    mode = f" of {trace['mode']}" if type(trace.get("mode")) is str else ""
    name = f" {trace['name'][:_NAME]!r}" if type(trace.get("name")) is str and trace["name"] else ""
    counts = [_count(trace.get(values)) for values in ("y", "x", "values", "z", "lat", "locations")]
    count = next((count for count in counts if count), None)
    return f"{kind}{mode}{name}{f' ({count} points)' if count else ''}"


def _count(values):
    if type(values) in (list, tuple):
        return len(values)
    # An array, as base64.
    if type(values) is dict and type(values.get("bdata")) is str and re.fullmatch(r"[a-z]\d", str(values.get("dtype"))):
        return len(values["bdata"].rstrip("=")) * 3 // 4 // int(values["dtype"][1])
    return len(values) if statics.module_name(type(values)) == "numpy" and getattr(values, "ndim", 0) else None
