"""Displays that have no text of their own, and images that are too large, have something for models in their metadata."""

import base64
import struct

import pytest
from rawkernel import RawKernel


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python)
    kernel.run("from IPython.display import HTML, Image, Markdown, display, publish_display_data\nimport pandas as pd")
    yield kernel
    kernel.close()


def told(kernel, code):
    """The metadata of the one message that shows something."""
    reply, _, messages = kernel.run(code)
    assert reply["status"] == "ok", reply
    [content] = [m["content"] for m in messages if m["msg_type"] in ("display_data", "execute_result")]
    return content["metadata"].get("himalia", {})


SUMMARIES = {
    "display(Markdown('# Title\\n\\n- one'))": "# Title\n\n- one",
    "HTML('<style>p{}</style><script>1</script><h1>Hi</h1><p>some <b>bold</b>  text &amp; more</p>')": "Hi\nsome bold text & more",
    "HTML('<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>')": "a | b\n1 | 2",
    "pd.DataFrame({'a': [1]}).style": "   a\n0  1",
    "publish_display_data({'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'name': 'n', 'x': [1, 2]}, {'y': {'dtype': 'f8', 'bdata': 'A' * 32}}],"
    " 'layout': {'title': {'text': 'Sales'}, 'xaxis': {'title': {'text': 'month'}}}}})": (
        "[plotly figure 'Sales', x: month, bar 'n' (2 points); scatter (3 points)]"
    ),
}


@pytest.mark.parametrize("code, summary", SUMMARIES.items(), ids=range(len(SUMMARIES)))
def test_a_display_without_text_has_a_summary(kernel, code, summary):
    assert told(kernel, code)["summary"] == summary


@pytest.mark.parametrize("code", ["1", "object()", "pd.DataFrame({'a': [1]})", "publish_display_data({'text/plain': 'x', 'text/html': '<p>y</p>'})"])
def test_others_have_none(kernel, code):
    assert "summary" not in told(kernel, code)


def test_a_large_image_has_a_smaller_copy(kernel):
    made = "import io\nfrom PIL import Image as Picture\nout = io.BytesIO()\nPicture.new('RGB', ({}, 300), 'red').save(out, '{}')\n"
    for kind in ("PNG", "JPEG"):
        found = told(kernel, made.format(4000, kind) + "Image(out.getvalue())")
        copy = base64.b64decode(found["preview"])
        assert struct.unpack(">II", copy[16:24]) == (2000, 150), kind
        assert "preview" not in told(kernel, made.format(2000, kind) + "Image(out.getvalue())")
    # What is no image is shown as it is.
    assert "preview" not in told(kernel, "publish_display_data({'image/jpeg': 'bm8='})")
