"""Frames and series say what they hold beside their text."""

import json

import pytest
from rawkernel import RawKernel

FRAME = "import pandas as pd; df = pd.DataFrame({'region': list('nsnwnsnw'), 'price': [3, None, 1.5, 4, 5, 6, 7, 8]})"


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python)
    kernel.run(FRAME)
    yield kernel
    kernel.close()


def table(kernel, code):
    """The content of the one message that shows something."""
    (content,) = [m["content"] for m in kernel.run(code)[2] if m["msg_type"] in ("display_data", "execute_result")]
    json.dumps(content, allow_nan=False)
    return content["metadata"].get("himalia", {}).get("table")


def test_a_frame_says_its_schema_its_shape_and_its_first_rows(kernel):
    for code in ("df", "display(df)"):
        found = table(kernel, code)
        assert found["shape"] == [8, 2] and found["columns_total"] == 2
        assert [column["name"] for column in found["columns"]] == ["region", "price"]
        assert found["columns"][1]["dtype"] == "float64"
        assert found["rows"] == [["n", 3.0], ["s", None], ["n", 1.5], ["w", 4.0], ["n", 5.0]]
        assert found["index"] == [0, 1, 2, 3, 4]
    assert table(kernel, "df.price")["shape"] == [8]
    assert table(kernel, "df.groupby('region').price.sum()")["index"] == ["n", "s", "w"]


def test_a_large_table_is_told_in_part(kernel):
    wide = table(kernel, "pd.DataFrame({f'c{n}': ['x' * 500] * 9 for n in range(300)})")
    assert wide["shape"] == [9, 300] and wide["columns_total"] == 300
    assert 1 < len(wide["columns"]) < 50 and {len(row) for row in wide["rows"]} == {len(wide["columns"])}
    assert len(json.dumps(wide)) <= 16 * 1024
    assert len(table(kernel, "pd.DataFrame({'a': range(1_000_000)})")["rows"]) == 5


def test_no_code_of_the_objects_in_it_is_run(kernel):
    code = """
ran = []
class Odd:
    def __repr__(self): ran.append(1); return "odd"
    __str__ = __float__ = __eq__ = __repr__
frame = pd.DataFrame({"a": [Odd()]})
"""
    kernel.run(code)
    kernel.run("from himalia_kernel import frames; found = frames.describe(frame)")
    assert kernel.run("print(ran, found['rows'])")[2][2]["content"]["text"].startswith("[] [[")


def test_other_things_have_none(kernel):
    for code in ("1", "[df]", "type('Mine', (pd.DataFrame,), {})({'a': [1]})"):
        assert table(kernel, code) is None
