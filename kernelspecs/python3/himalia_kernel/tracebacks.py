"""Tracebacks show the frames of the user's own code, and of libraries the innermost one, in a line.

This is for IPython's mode `Context`, the default: after `%xmode Verbose` all frames are shown. Frames that are left out are also
not read by IPython, which parses the whole module of each.
"""

import linecache
import os
import sysconfig
import types
from itertools import groupby

from himalia_kernel.deep_tracebacks import COUNTED, shortened

# Frames that are shown, half of them the first ones; how often one at the same line is; characters of a line of source.
_FRAMES = 60
_REPEATS = 2
_LINE = 160
_PACKAGES = ("site-packages", "dist-packages")
_OWN = os.path.dirname(__file__)
_LIBRARIES = tuple({f"{sysconfig.get_path(kind)}/" for kind in ("stdlib", "platstdlib", "purelib", "platlib")} | {f"{_OWN}/"})


def install(shell):
    """Let a shell's tracebacks be short."""
    table = shell.InteractiveTB
    records, line, whole = table.get_records, table.format_record, table.format_exception_as_a_whole

    def get_records(etb, context, tb_offset):
        if table.mode != "Context":
            return records(etb, context, tb_offset)
        found = []
        for own, run in groupby(_bounded(list(_frames(shell, etb))), lambda one: not isinstance(one, _Frames)):
            found += _of_user(list(run), records, context) if own else run
        return found

    def format_record(record):
        return record.text() if isinstance(record, _Frames) else line(record)

    def format_exception_as_a_whole(etype, evalue, etb, context, tb_offset):
        frames = [] if table.mode != "Context" or etb is None else list(_frames(shell, etb))
        if not frames or not all(isinstance(one, _Frames) for one in frames):
            return whole(etype, evalue, etb, context, tb_offset)
        # Raised and caught inside of a library: the exception that came of it has the user's frames.
        return [["".join(one.text() for one in frames), *table.format_exception(etype.__name__, evalue)]]

    table.get_records, table.format_record = get_records, format_record
    table.format_exception_as_a_whole = format_exception_as_a_whole


class _Frames:
    """A run of frames of libraries, with what IPython asks of a record."""

    _sd = None

    def __init__(self, entries):
        readable = [entry for entry in entries if os.path.isfile(entry.tb_frame.f_code.co_filename)]
        self.entry = shown = (readable or entries)[-1]
        self.frame = shown.tb_frame
        self.filename = self.frame.f_code.co_filename
        self.lineno = shown.tb_lineno
        self._left_out = [entry for entry in entries if entry is not shown]

    def text(self):
        """The innermost frame, after what is left out."""
        code = self.frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        text = f"File {self.filename}:{self.lineno}, in {name}\n"
        source = linecache.getline(self.filename, self.lineno, self.frame.f_globals).strip()
        if source:
            text += f"    {source[:_LINE]}\n"
        return f"    {_counted(self._left_out)}\n{text}" if self._left_out else text


class _Repeated(_Frames):
    """Frames that repeat those before them."""

    def __init__(self, first):
        super().__init__([first])
        self.count = 1

    def text(self):
        """How many there are."""
        return f"    [… {self.count} similar frames]\n"


def _counted(entries):
    counts = {}
    for entry in entries:
        package = _package(entry.tb_frame.f_code.co_filename)
        counts[package] = counts.get(package, 0) + 1
    return f"[… {', '.join(f'{count} of {name}' for name, count in counts.items())}]"


def _package(filename):
    parts = filename.split("/")
    for place in _PACKAGES:
        if place in parts[:-1]:
            return parts[parts.index(place) + 1].removesuffix(".py")
    return parts[0] if len(parts) > 1 and parts[0] else "Python"


def _frames(shell, etb):
    """The traceback's entries of the user's code, and the others as `_Frames`; of those that repeat only the first and the last."""
    etb, _ = shortened(etb, COUNTED)
    entries = []
    while etb is not None:
        if not _is_shells(etb.tb_frame):
            entries.append(etb)
        etb = etb.tb_next
    counts, repeated = {}, None
    for own, run in groupby(entries, lambda entry: _is_own(shell, entry.tb_frame.f_code.co_filename)):
        for one in run if own else [_Frames(list(run))]:
            entry = one if own else one.entry
            key = (entry.tb_frame.f_code, entry.tb_lineno)
            counts[key] = counts.get(key, 0) + 1
            if counts[key] <= _REPEATS or entry is entries[-1]:
                repeated = None
                yield one
            elif repeated is None:
                repeated = _Repeated(entry)
                yield repeated
            else:
                repeated.count += 1


def _bounded(frames):
    """The first and the last of very many."""
    half = _FRAMES // 2
    return frames if len(frames) <= _FRAMES else [*frames[:half], *frames[-half:]]


def _of_user(entries, records, context):
    """IPython's records of these entries alone."""
    chain = None
    for entry in reversed(entries):
        chain = types.TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    found = records(chain, context, 0)
    if len(found) == len(entries):
        for record, entry in zip(found, entries, strict=True):
            if record._sd is None:
                # IPython takes the line where the frame is now, which can be one behind the failing line.
                record.lineno = entry.tb_lineno
    return found


def _is_shells(frame):
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.partition(".")[0] == "IPython"


def _is_own(shell, filename):
    label = shell.compile.format_code_name(filename)
    if label is not None and label[0] == "Cell":
        return True
    if filename.startswith(_LIBRARIES) or any(f"/{place}/" in filename for place in _PACKAGES):
        return False
    packages = os.environ.get("PIP_TARGET")
    if packages and filename.startswith(f"{packages}/"):
        return False
    # A file of Cython is named as it was where it was compiled; the import system has no files.
    return not filename.startswith("<frozen ") and not filename.endswith((".pyx", ".pxi", ".pxd"))
