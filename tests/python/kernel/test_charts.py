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


LINE = {"kind": "line", "label": None, "points": 2, "x": [0.0, 1.0], "y": [1.0, 2.0]}


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
            "plot": {"axes": [{"title": "", "x": "", "y": "", "series": [LINE]}]},
        }
        json.dumps(content, allow_nan=False)


def test_a_figure_without_data_is_shown_all_the_same(kernel):
    (content,) = shown(kernel, "plt.plot([1, 2]); plt.suptitle('broken'); plt.show()")
    assert "image/png" in content["data"] and "himalia" not in content["metadata"]
    (content,) = shown(kernel, "plt.plot(range(20_000)); plt.show()")
    assert set(content["metadata"]["himalia"]) == {"figure", "plot"}
    (series,) = content["metadata"]["himalia"]["plot"]["axes"][0]["series"]
    assert series["points"] == 20_000 and series["x"][:2] == [0.0, 200.0] and len(series["y"]) == 100


PLOT = """
f, (a, b) = plt.subplots(1, 2)
a.plot([1, float("nan")], label="price"); a.set_title("T"); a.set_xlabel("day"); a.set_ylabel("EUR")
a.scatter([1, 2], [3, 4])
b.bar(["n", "s"], [5, 6]); b.barh([1, 2], [7, 8])
b.imshow([[1, 2], [3, 4]])
plt.show()
"""


def test_lines_scatters_and_bars_say_what_they_show(kernel):
    (content,) = shown(kernel, PLOT)
    left, right = content["metadata"]["himalia"]["plot"]["axes"]
    assert (left["title"], left["x"], left["y"]) == ("T", "day", "EUR")
    line, scatter = left["series"]
    assert line == {"kind": "line", "label": "price", "points": 2, "x": [0.0, 1.0], "y": [1.0, None]}
    assert (scatter["kind"], scatter["x"], scatter["y"]) == ("scatter", [1.0, 2.0], [3.0, 4.0])
    upright, lying = right["series"]
    assert (upright["kind"], upright["y"], lying["x"]) == ("bar", [5.0, 6.0], [7.0, 8.0])
    json.dumps(content, allow_nan=False)



def test_other_outputs_are_as_they_were(kernel):
    (content,) = shown(kernel, "1")
    assert content["metadata"] == {}


def test_what_is_no_png_has_no_size():
    assert charts.png_size("") is charts.png_size(b"GIF89a") is charts.png_size("äöü" * 20) is charts.png_size(None) is None
