"""Tracebacks: bounded, also of deep recursion, and those of exception groups in the reply."""

import pytest
from observed import run

DEEP = """
import sys
sys.setrecursionlimit(10**6)
def deep(n):
    if n == 0: raise ValueError("the bottom")
    return deep(n - 1)
"""


@pytest.mark.parametrize("code", ["deep(200_000)", "try: deep(200_000)\nexcept ValueError: raise KeyError('above')"])
def test_deep_recursion_has_a_short_traceback_soon(kernel, code):
    run(kernel, DEEP)
    content = run(kernel, code)["content"]
    assert content["status"] == "error"
    text = "\n".join(content["traceback"])
    assert "the bottom" in text and "frames are left out" in text
    assert len(text) < 100_000
    assert run(kernel, "1")["content"]["status"] == "ok"


def test_a_usual_traceback_leaves_out_nothing(kernel):
    text = "\n".join(run(kernel, "def f(n): return 1/n if n < 1 else f(n - 1)\nf(20)")["content"]["traceback"])
    assert "ZeroDivisionError" in text and "left out" not in text


def test_an_exception_group_has_its_traceback_in_the_reply(kernel):
    code = "raise ExceptionGroup('several', [ValueError(n) for n in range(300)])"
    _, out, messages = kernel.run(code)
    errors = [message["content"] for message in messages if message["msg_type"] == "error"]
    (error,) = errors
    text = "\n".join(error["traceback"])
    assert error["ename"] == "ExceptionGroup" and "ValueError: 3" in text and "and 285 more exceptions" in text and "ExceptionGroup" not in out
    content = run(kernel, "try: 1/0\nexcept Exception as e: raise ExceptionGroup('x', [e]) from e")["content"]
    assert content["ename"] == "ExceptionGroup" and "ZeroDivisionError" in "\n".join(content["traceback"])


def test_the_traceback_of_a_group_names_cells_and_is_bounded(kernel):
    code = "import asyncio\nasync with asyncio.TaskGroup() as group:\n    group.create_task(asyncio.to_thread(lambda: 1 / 0))"
    text = "\n".join(run(kernel, code)["content"]["traceback"])
    assert text.count('File "Cell In[') == 2 and "ipykernel" not in text and "IPython" not in text, text
    chain = "deep = None\nfor n in range(3000):\n    one = ValueError(n); one.__context__ = deep; deep = one\n"
    lines = run(kernel, f"{chain}raise ExceptionGroup('deep', [deep])")["content"]["traceback"]
    text = "\n".join(lines)
    assert "ValueError: 0" in text and "ValueError: 2999" in text and "lines are left out" in text and len(lines) < 400


@pytest.mark.parametrize("code", ["exit()", "quit()", "import sys; sys.exit()"])
def test_exit_ends_the_cell_and_keeps_the_variables(kernel, code):
    run(kernel, "kept = 7")
    content = run(kernel, f"early = 1\n{code}\nlate = 1")["content"]
    assert (content["status"], content["ename"]) == ("error", "SystemExit")
    assert not [entry for entry in content.get("payload") or [] if entry["source"] == "ask_exit"]
    after = run(kernel, "assert (kept, early, 'late' in globals()) == (7, 1, False)")["content"]
    assert after["status"] == "ok"
