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


def test_intervals_periods_durations_and_dtypes_are_values(kernel):
    binned = table(kernel, "pd.cut(pd.Series([1, 5, 9]), [0, 3, 10]).value_counts().sort_index()")
    assert binned["index"] == ["(0, 3]", "(3, 10]"] and binned["rows"] == [[1], [2]]
    code = "pd.DataFrame({'p': pd.period_range('2024-01', periods=1, freq='M'), 't': pd.to_timedelta([1], unit='D')"
    found = table(kernel, code + ", 'u': pd.to_timedelta([90], unit='min'), 'z': pd.to_datetime(['2024-01-02']).tz_localize('Europe/Berlin')})")
    assert found["rows"] == [["2024-01", "1 days", "0 days 01:30:00", "2024-01-02T00:00:00+01:00"]]
    assert table(kernel, "df.dtypes")["rows"][1] == ["float64"]
    assert table(kernel, "pd.Series([pd.Interval(0, 1, closed='left')])")["rows"] == [["[0, 1)"]]


def test_a_frame_of_some_columns_is_one_block(kernel):
    shown = kernel.run("pd.DataFrame({f'column_{n}': range(3) for n in range(14)})")[2]
    [text] = [m["content"]["data"]["text/plain"] for m in shown if m["msg_type"] == "execute_result"]
    assert "\\" not in text and len(text.splitlines()) == 4, text
    kernel.run("pd.options.display.width = 100")
    assert kernel.run("print(pd.options.display.width)")[1] == "100\n", "a choice of the user's is kept"
    kernel.run("pd.options.display.width = 80")
