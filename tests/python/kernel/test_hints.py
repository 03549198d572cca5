"""A failed execution's reply names the line and what may have been meant."""

import pytest
from observed import about, run
from rawkernel import RawKernel

SETUP = """
import json
import pandas as pd
from pathlib import Path
prices = pd.DataFrame({"price": [1.0], "region": ["north"], 7: [1]})
settings = {"timeout": 1, "retries": 2, "nested": {"depth": 3}}
class Model:
    def __init__(self): self.weights = []; self.table = prices
    def predict(self): pass
model = Model()
Path("prices.csv").write_text("a"); Path("data").mkdir(); Path("data/north.csv").write_text("a")
def broken(value):
    lenght = 1
    return value.foo
"""


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python)
    assert run(kernel, SETUP)["content"]["status"] == "ok"
    yield kernel
    kernel.close()


def error(kernel, code):
    return about(kernel, code)["error"]


HINTS = {
    "input('Name? ')": "the caller of this code answers no prompts",
    "import getpass\ngetpass.getpass()": "allow_stdin over REST and MCP",
    "pricse.head()": "did you mean 'prices'",
    "np.zeros(3)": "'np' is not imported yet: import numpy as np",
    "datetime.now()": "'datetime' is a module that is not imported yet: import datetime",
    "pritn(1)": "did you mean 'print'?",
    "def f():\n    total = 1\n    return totla\nf()": "did you mean 'total'?",
    "model.wieghts": "did you mean 'weights'?",
    "model.predcit()": "did you mean 'predict'?",
    "json.dmups({})": "did you mean 'dumps'",
    "prices.prcie": "did you mean 'price'",
    "prices.sort_value('price')": "did you mean 'sort_values'",
    "[3, 1].sort().append(1)": "the object is None; methods that work in place return None",
    "prices['prcie']": "prices: did you mean 'price'?",
    "prices['Region']": "prices: did you mean 'region'?",
    "prices[['price', 'regoin']]": "prices: did you mean 'region'?",
    "prices.groupby('regoin').sum()": "prices: did you mean 'region'?",
    "by_region = prices.groupby('region')\nby_region['prcie'].sum()": "by_region: did you mean 'price'?",
    "(prices\n .sort_values('regoin')\n)": "prices: did you mean 'region'?",
    "model.table['regoin']": "model.table: did you mean 'region'?",
    "prices['zzz']": "columns of prices are: 'price', 'region'",
    "prices[8]": "columns of prices are: 'price', 'region', 7",
    "settings['timeuot']": "settings: did you mean 'timeout'?",
    "settings['nested']['dept']": "settings['nested']: did you mean 'depth'?",
    "import pandsa": "did you mean 'pandas'",
    "import cv2": "the module 'cv2' comes with the package 'opencv-python', which is not installed",
    "import matplotlib.pyplto": "did you mean 'pyplot'?",
    "from json import dmups": "did you mean 'dumps'",
    "open('price.csv')": "did you mean 'prices.csv'?",
    "pd.read_csv('data/nroth.csv')": "did you mean 'north.csv'?",
    "open('dta/north.csv')": "did you mean 'data'?",
    "open('data/zzz')": "'data' has: 'north.csv'",
}


@pytest.mark.parametrize("code, hint", HINTS.items(), ids=HINTS)
def test_what_may_have_been_meant(kernel, code, hint):
    assert hint in (error(kernel, code)["hint"] or "nothing")


def test_the_line_is_that_of_the_cell_as_it_was_written(kernel):
    found = error(kernel, "\n\nx = 1\n!true\ny = x / 0  # here\n")
    assert (found["line"], found["source"], found["hint"]) == (5, "y = x / 0  # here", None)


def test_the_line_of_a_function_is_in_the_cell_that_defined_it(kernel):
    reply = run(kernel, "broken(3)")
    found = reply["metadata"]["himalia"]["error"]
    assert found["source"] == "    return value.foo" and found["cell"] == 1
    assert found["line"] == SETUP.splitlines().index("    return value.foo")
    inside_a_library = run(kernel, "x = 1\njson.loads('{')")
    found = inside_a_library["metadata"]["himalia"]["error"]
    assert (found["line"], found["source"]) == (2, "json.loads('{')")
    assert found["cell"] == inside_a_library["content"]["execution_count"]


def test_a_syntax_error_has_its_line(kernel):
    found = error(kernel, "x = 1\n\ny = = 2")
    assert (found["line"], found["source"]) == (3, "y = = 2")


def test_an_interrupted_cell_has_the_line_where_it_was(kernel):
    msg_id = kernel.execute("import time\n\nwhile True: print('here', flush=True); time.sleep(0.01)", stop_on_error=False)
    for message in kernel.outputs(msg_id):
        if message["msg_type"] == "stream":
            kernel.interrupt()
            break
    while True:
        reply = kernel.receive("shell")
        if reply["parent_header"]["msg_id"] == msg_id:
            break
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert reply["metadata"]["himalia"]["error"]["line"] == 3


def test_success_and_recursion(kernel):
    assert "error" not in about(kernel, "1")
    assert error(kernel, "def deep(): return deep()\ndeep()")["line"] == 1


HOSTILE = """
class Hostile:
    def __getattribute__(self, name): ran.append(name); raise AttributeError(name, name="x", obj=self)
    def __dir__(self): ran.append("dir"); return []
    def __repr__(self): ran.append("repr"); return "x"
    def __eq__(self, other): ran.append("eq"); return True
    __hash__ = None
class Failing(KeyError, AttributeError):
    def __getattribute__(self, name):
        if name not in ("__traceback__", "__class__", "with_traceback", "__cause__", "__context__"): ran.append(name)
        return BaseException.__getattribute__(self, name)
hostile = Hostile(); ran = []; bag = {"a": hostile}
"""


def test_no_code_of_the_user_runs(kernel):
    assert run(kernel, HOSTILE)["content"]["status"] == "ok"
    code = "\nfrom himalia_kernel import hints\nimport types\n"
    code += "def result(problem): return types.SimpleNamespace(error_before_exec=None, error_in_exec=problem,"
    code += " execution_count=0, info=None)\n"
    for failing in ("hostile.x", "bag['b']", "raise Failing(hostile)", "raise Failing('a', name=hostile)"):
        code += f"try:\n    {failing}\nexcept Exception as problem:\n    ran.clear(); hints.of(get_ipython(), result(problem))\n"
        code += "    print(ran)\n"
    reply, out, _ = kernel.run(code)
    assert reply["status"] == "ok", reply
    assert out == "[]\n" * 4
