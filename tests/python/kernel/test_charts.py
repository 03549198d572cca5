"""Figures say how large they are, and what they show if the package for that is there."""

import json
import sys

import pytest
from rawkernel import PACKAGE, RawKernel

sys.path.insert(0, str(PACKAGE))
from himalia_kernel import charts  # noqa: E402

# In the place of the real package, which needs pydantic.
STAND_IN = """
import enum, numpy
class Kind(enum.Enum): LINE = "line"
def chart_figure_to_dict(figure):
    if figure.get_suptitle() == "broken": raise ValueError("broken")
    return {"type": Kind.LINE, "points": [(1, numpy.float64(2.5)), (float("nan"), numpy.int64(3))]}
"""


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python, before=lambda directory: (directory / "e2b_charts.py").write_text(STAND_IN))
    kernel.run("import matplotlib.pyplot as plt")
    yield kernel
    kernel.close()


def shown(kernel, code):
    return [m["content"] for m in kernel.run(code)[2] if m["msg_type"] in ("display_data", "execute_result")]


def test_a_figure_has_its_size_and_its_data(kernel):
    for code in ("plt.plot([1, 2]); plt.show()", "plt.plot([1, 2]);", "f, a = plt.subplots(); a.plot([1, 2]); plt.close(); f"):
        (content,) = shown(kernel, code)
        width, height = charts.png_size(content["data"]["image/png"])
        assert width > 100 < height
        assert content["metadata"]["himalia"] == {
            "figure": {"width": width, "height": height},
            "chart": {"type": "line", "points": [[1, 2.5], [None, 3.0]]},
        }
        json.dumps(content, allow_nan=False)


def test_a_figure_without_data_is_shown_all_the_same(kernel):
    (content,) = shown(kernel, "plt.plot([1, 2]); plt.suptitle('broken'); plt.show()")
    assert "image/png" in content["data"] and "himalia" not in content["metadata"]
    (content,) = shown(kernel, "plt.plot(range(20_000)); plt.show()")
    assert set(content["metadata"]["himalia"]) == {"figure"}


def test_other_outputs_are_as_they_were(kernel):
    (content,) = shown(kernel, "1")
    assert content["metadata"] == {}


def test_what_is_no_png_has_no_size():
    assert charts.png_size("") is charts.png_size(b"GIF89a") is charts.png_size("äöü" * 20) is charts.png_size(None) is None
