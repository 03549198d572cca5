"""Tracebacks have the user's frames and little of libraries; warnings are short and name the cell."""

import re

import pytest
from rawkernel import RawKernel, text_of


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python)
    yield kernel
    kernel.close()


def traceback(kernel, code):
    """The text of what a cell raises, without colours."""
    reply, _, messages = kernel.run(code)
    assert reply["status"] == "error", reply
    [raised] = [message["content"]["traceback"] for message in messages if message["msg_type"] == "error"]
    return re.sub("\x1b\\[[0-9;]*m", "", "\n".join(raised))


def test_frames_of_libraries_are_one_line_and_a_count(kernel):
    shown = traceback(kernel, "import pandas as pd\nframe = pd.DataFrame({'a': [1]})\nframe['b']")
    assert "----> 3 frame['b']" in shown and shown.endswith("KeyError: 'b'"), shown
    assert "Could not get source" not in shown and len(shown) < 1000, shown
    assert re.search(r"\[… \d+ of pandas\]\nFile /[^:]+/pandas/core/indexes/base.py:\d+, in ", shown), shown
    called_back = traceback(kernel, "frame.apply(lambda row: row['zz'], axis=1)")
    assert called_back.count("frame.apply(lambda") == 2 and "in <lambda>(row)" in called_back, called_back


def test_an_error_of_the_network_is_short(kernel):
    shown = traceback(kernel, "import requests\nrequests.get('https://nothing.invalid/')")
    assert "----> 2 requests.get" in shown and len(shown) < 2500, shown


def test_the_line_is_that_of_the_error_and_not_where_the_frame_is_later(kernel):
    shown = traceback(kernel, "try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('bad') from error")
    assert "----> 2     1 / 0" in shown and "----> 4     raise ValueError" in shown, shown


def test_frames_that_repeat_are_counted(kernel):
    for code in (
        "def deep(n): return deep(n + 1)\ndeep(0)",
        "def even(n): return odd(n + 1)\ndef odd(n): return even(n + 1)\neven(0)",
        "def rec(n): return pd.Series([n]).apply(lambda x: rec(x + 1))\nrec(0)",
    ):
        shown = traceback(kernel, code)
        assert re.search(r"\[… \d{3,} similar frames\]", shown) and len(shown) < 2500, shown


def test_all_frames_are_there_for_those_who_want_them(kernel):
    kernel.run("%xmode Verbose")
    shown = traceback(kernel, "frame['b']")
    kernel.run("%xmode Context")
    assert "of pandas]" not in shown and shown.count("pandas/core/") > 1, shown


def test_a_file_of_the_user_is_shown_with_its_source(kernel):
    kernel.run("from pathlib import Path\nPath('own.py').write_text('def fails():\\n    left = 1\\n    return left / 0\\n')")
    shown = traceback(kernel, "import own\nown.fails()")
    assert "----> 3     return left / 0" in shown and "2     left = 1" in shown, shown


def warned(kernel, code):
    reply, _, messages = kernel.run(code)
    assert reply["status"] == "ok", reply
    return text_of(messages, "stderr")


def test_a_warning_names_the_cell_and_no_path(kernel):
    count = kernel.run("import warnings")[0]["execution_count"]
    shown = warned(kernel, "\nwarnings.warn('careful ' * 100)")
    assert shown.startswith(f"Cell In[{count + 1}]:1: UserWarning: careful ") and len(shown) < 400, shown
    assert shown.endswith("…\n  warnings.warn('careful ' * 100)\n"), shown
    shown = warned(kernel, "import textwrap\nwarnings.warn_explicit('old', UserWarning, textwrap.__file__, 3)")
    assert shown == "textwrap.py:3: UserWarning: old\n", shown


def test_a_deprecation_is_shown_once_and_a_change_of_a_copy_each_time(kernel):
    code = "warnings.warn('old way', FutureWarning)"
    assert "FutureWarning: old way" in warned(kernel, code)
    assert warned(kernel, code) == ""
    # pandas 3 warns in this way of what works in the versions before it.
    copy = "warnings.warn('A value is being set on a copy ' * 30, pd.errors.ChainedAssignmentError)"
    shown = [warned(kernel, copy) for _ in range(2)]
    assert all("leaves the frame as it is: write `df[column] = df[column].method(value)`" in one for one in shown), shown
    assert len(shown[0]) < 400, shown


def test_code_that_records_warnings_has_them_whole(kernel):
    code = "with warnings.catch_warnings(record=True) as caught:\n    warnings.simplefilter('always')\n"
    code += "    warnings.warn('old way', FutureWarning)\nprint(len(caught), caught[0].message)"
    assert kernel.run(code)[1] == "1 old way\n"
