"""What is changed in libraries for a kernel whose reader may be a program, and for a sandbox."""

import os
import sys

from himalia_kernel import on_import

# Families with Chinese, Japanese and Korean characters, the best first.
_EAST_ASIAN = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback",
    "IPAexGothic", "Noto Sans SC", "NanumGothic",
)  # fmt: skip
# Characters of a line of a frame.
_WIDTH = 250
_MISSING = (
    "no font here has some characters of this plot, for instance {!r}: they are drawn as boxes. A font of the machine or the image that "
    "has them is used without any setting (Debian: fonts-wqy-microhei)."
)


def adapt():
    """Have it done when they are loaded. Before anything is preloaded."""
    on_import.call(
        {
            "joblib.externals.loky.backend.context": _count_cores,
            "matplotlib._text_helpers": _say_once_what_is_missing,
            "matplotlib.backend_bases": _show_without_window,
            "matplotlib.font_manager": _find_east_asian_font,
            "pandas": _write_wide_frames,
            "PIL.ImageShow": _show_images_here,
            "tqdm.notebook": _end_bars_as_text,
        }
    )


def _write_wide_frames(pandas):
    """In one block: at the width of pandas the columns of most frames come in several, which costs more text."""
    pandas.options.display.width = _WIDTH


def _count_cores(context):
    """joblib asks `lscpu`, which reads `/sys`. Sandboxes have none, and each first use would print a traceback about it."""
    if not os.path.isdir("/sys/devices/system/cpu"):
        context.physical_cores_cache = os.cpu_count() or 1


def _say_once_what_is_missing(helpers):
    """Instead of two lines for each character one short warning in each cell."""
    from matplotlib import _api

    told = None

    def warn(codepoint, fontnames):
        nonlocal told
        shell = _shell()
        cell = None if shell is None else shell.execution_count
        if cell is None or cell != told:
            told = cell
            _api.warn_external(_MISSING.format(chr(codepoint)))

    helpers.warn_on_missing_glyph = warn


def _find_east_asian_font(font_manager):
    """Take characters that the chosen families lack from a font of the system that has them, where there is one."""
    manager = font_manager.fontManager
    known = {entry.name for entry in manager.ttflist}
    found = next((name for name in _EAST_ASIAN if name in known), None)
    if found is None:
        return
    plain = manager._find_fonts_by_props

    def find(prop, *args, **kwargs):
        fonts = plain(prop, *args, **kwargs)
        more = manager.findfont(found)
        return fonts if more in fonts else [*fonts, more]

    manager._find_fonts_by_props = find


def _show_without_window(backend_bases):
    """`show()` of a backend that only draws, as `Agg`, shows the figure here instead of nothing, and lets go of it."""
    plain = backend_bases.FigureManagerBase.show

    def show(manager):
        if _shell() is None or getattr(manager.canvas, "required_interactive_framework", None) is not None:
            plain(manager)
            return
        from IPython.display import display
        from matplotlib._pylab_helpers import Gcf

        display(manager.canvas.figure)
        Gcf.destroy(manager)

    backend_bases.FigureManagerBase.show = show


def _show_images_here(image_show):
    """`Image.show()` shows the image here. The programs that it starts otherwise need a screen."""
    viewer = getattr(image_show, "IPythonViewer", None)
    if viewer is not None:
        image_show.register(viewer, 0)


def _end_bars_as_text(notebook):
    """A bar is a widget there, and its text that of its beginning. At its end the output is updated."""
    from IPython.display import display

    def show(container):
        container.shown = display(container, display_id=True)

    plain = notebook.tqdm_notebook.close

    def close(bar):
        ended = bar.disable
        plain(bar)
        shown = getattr(getattr(bar, "container", None), "shown", None)
        if not ended and shown is not None and (bar.leave or bar.n < (bar.total or 0)):
            shown.update(bar.container)

    notebook.display = show
    notebook.tqdm_notebook.close = close


def _shell():
    """The shell of the kernel; None while modules are preloaded, and elsewhere."""
    interactive = sys.modules.get("IPython.core.interactiveshell")
    shells = getattr(interactive, "InteractiveShell", None)
    return shells.instance() if shells is not None and shells.initialized() else None
