"""A failed execution's reply names the line and what may have been meant."""

import json

import pytest
from observed import about, run
from rawkernel import RawKernel, text_of

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
    "open('dta/north.csv')": "has 'data/north.csv'",
    "open('dta/zzz.csv')": "did you mean 'data'?",
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


CHANGED = {
    "frame.append(frame)": "use: pd.concat([one, other]",
    "raise AttributeError('gone', name='applymap', obj=frame)": "use: map",
    "frame.groupby('Name')['Age'].agg('avg')": "'avg' is gone in recent versions; use: mean",
    "frame['Age'].agg('avg')": "use: mean",
    "frame.iteritems()": "use: items",
    "frame.ix[0]": "use: loc for labels",
    "raise TypeError(\"NDFrame.fillna() got an unexpected keyword argument 'method'\")": "use: ffill() or bfill()",
    "raise ValueError(\"Invalid frequency: M. Failed to parse with error message\")": "use: 'ME'",
    "raise ValueError(\"Invalid frequency: 2H\")": "use: 'h'",
    "raise ValueError(\"Invalid frequency: Y, failed to parse\")": "use: 'YE'",
    "frame.query('age > 30')": "frame: did you mean 'Age'?",
    "frame.query('Total Sales > 30')": "stand in backticks: `Total Sales`",
    "frame.query('Sales > 30')": "stand in backticks: `Total Sales`",
    "frame.query('zzz > 30')": "columns of frame are: 'Age', 'Total Sales', 'Name', 'day'; a variable is @zzz",
    "frame.corr()": "text columns of frame: 'Name'; use numeric_only=True",
    "frame.drop(columns='day').mean()": "text columns of frame: 'Name'; use numeric_only=True",
    "frame.groupby('Age').mean()": "text columns of frame: 'Name'; use numeric_only=True",
    "import numpy\nvalues = numpy.zeros(1); values.flags.writeable = False\nvalues[0] = 3": "read-only: write to a .copy() of the array",
    "raise TypeError(\"read_csv() got an unexpected keyword argument 'delim_whitespace'\")": r"use: sep=r'\s+'",
    "frame['day'].dt.week": "use: isocalendar().week",
    "frame.sum(level=0)": "use: groupby(level=…) first",
    "import numpy\nnumpy.float(3)": "use: float, of Python itself",
    "import numpy\nnumpy.trapz([1])": "use: np.trapezoid",
    "from sklearn.metrics import mean_squared_error\nmean_squared_error([1], [2], squared=False)": "use: root_mean_squared_error",
    "from sklearn.preprocessing import OneHotEncoder\nOneHotEncoder(sparse=False)": "use: sparse_output=",
    "from sklearn.cross_validation import KFold": "use: sklearn.model_selection",
    "from sklearn.externals import joblib": "use: import joblib",
    "frame['Age'].str.upper()": "astype(str) first",
    "frame['Name'].dt.year": "pd.to_datetime(…) first",
    "from sklearn.metrics import plot_confusion_matrix": "use: ConfusionMatrixDisplay.from_estimator",
    "from sklearn.linear_model import LinearRegression\nLinearRegression().fit(frame[['Name']], frame['Age'])": (
        "text columns of frame: 'Name'; encode them (pd.get_dummies)"
    ),
    "open('<table><tr><td>1</td></tr></table>')": "io.StringIO(text) makes a file of it",
    "open('{\"a\": 1}')": "io.StringIO(text) makes a file of it",
    "pd.read_csv('/mnt/data/prices.csv')": "has 'prices.csv'",
    "open('/mnt/data/north.csv')": "has 'data/north.csv'",
    "open('/mnt/data/pricse.csv')": "did you mean 'prices.csv'?",
}
FRAME = """
frame = pd.DataFrame({"Age": [1, 2], "Total Sales": [1.0, None], "Name": ["a", "b"], "day": pd.date_range("2024", periods=2)})
"""


@pytest.mark.parametrize("code, hint", CHANGED.items(), ids=CHANGED)
def test_what_newer_libraries_want(kernel, code, hint):
    """Errors that only versions later than those of the environment raise are raised here as they are there."""
    assert run(kernel, FRAME)["content"]["status"] == "ok"
    assert hint in (error(kernel, code)["hint"] or "nothing")


# What code of models imports and the environment does not have.
ABSENT = """
altair arch bokeh boto3 cartopy catboost chardet contextily cupy cvxpy dask datasets deap django docx2txt duckdb easyocr emoji faiss
fastapi fasttext fiona flask folium fpdf fuzzywuzzy gensim geopandas geopy graphviz gym h5py holoviews imageio imblearn jax jieba
kaleido keras langdetect librosa lifelines lightgbm lime missingno mlxtend nltk nibabel numba openai optuna osmnx pandas_profiling
pandasql pdfplumber pingouin plotnine pmdarima polars prophet psycopg2 pymc pymysql pyreadstat pyspark pytesseract pytz rapidfuzz
rasterio reportlab scrapy selenium shap shapely spacy sqlalchemy squarify streamlit tables tensorflow textblob torch torchvision
transformers tsfresh umap unidecode wordcloud xarray xgboost xlrd yellowbrick yfinance
""".split()


def test_a_package_that_is_absent_is_no_misspelling(kernel):
    code = "import importlib.util, json\nabsent = json.loads('''%s''')\n" % json.dumps(ABSENT)
    code += "from himalia_kernel import absent as hints\n"
    code += "print(json.dumps({name: hints.hint(name) for name in absent if importlib.util.find_spec(name) is None}))"
    reply, out, _ = kernel.run(code)
    assert reply["status"] == "ok", reply
    hints = json.loads(out)
    assert len(hints) >= 75, sorted(set(ABSENT) - hints.keys())
    assert not {name: hint for name, hint in hints.items() if "did you mean" in hint or "not installed" not in hint}
    assert "Installed are: numpy, pandas, scipy" in hints["torch"]
    offline = "import os\nos.environ['HIMALIA_NETWORK'] = 'none'\nimport torch"
    assert "'torch' is not installed; this session has no network" in error(kernel, offline)["hint"]
    index = "del os.environ['HIMALIA_NETWORK']\nos.environ['PIP_INDEX_URL'] = 'http://packages.internal/simple/'\nimport umap"
    assert "`%pip install umap-learn` asks the package index" in error(kernel, index)["hint"]
    run(kernel, "del os.environ['PIP_INDEX_URL']")
    for wrong, right in (("numpi", "numpy"), ("matplotlb", "matplotlib"), ("PyPDF2", "pypdf"), ("jsn", "json")):
        assert f"did you mean '{right}'" in error(kernel, f"import {wrong}")["hint"]


OFFLINE = {
    "import pandas as pd\npd.read_csv('https://nothing.invalid/a.csv')": "put the file into the work directory",
    "import requests\nrequests.get('https://nothing.invalid/')": "this session has no network",
    "import httpx\nhttpx.get('https://nothing.invalid/')": "this session has no network",
    "import seaborn as sns\nimport urllib.request\nurllib.request.urlopen('https://nothing.invalid/load_dataset')  # load_dataset": (
        "seaborn's data sets are downloads"
    ),
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'raise SystemExit(3)', 'pip', 'install', 'x'], check=True)": (
        "this session has no network, so pip fetches nothing"
    ),
}


# A program of the session answers, or none listens.
ANSWERED = """
import http.server, socket, threading, urllib.request, requests, httpx
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
answers = f"http://127.0.0.1:{server.server_port}/"
with socket.create_server(("127.0.0.1", 0)) as free:
    refuses = f"http://127.0.0.1:{free.getsockname()[1]}/"
"""
FAILING = ("urllib.request.urlopen(answers)", "urllib.request.urlopen(refuses)", "requests.get(refuses)", "httpx.get(refuses)")


@pytest.mark.parametrize("code", FAILING)
def test_a_program_in_the_session_needs_no_network(kernel, code):
    setup = f"import os\nos.environ['HIMALIA_NETWORK'] = 'none'{ANSWERED}"
    assert run(kernel, setup)["content"]["status"] == "ok"
    try:
        assert error(kernel, code)["hint"] is None
    finally:
        run(kernel, "del os.environ['HIMALIA_NETWORK']; server.shutdown()")


@pytest.mark.parametrize("code, hint", OFFLINE.items(), ids=OFFLINE)
def test_a_session_without_network_is_told_so(kernel, code, hint):
    assert run(kernel, "import os\nos.environ['HIMALIA_NETWORK'] = 'none'")["content"]["status"] == "ok"
    failing = "!echo pip install x; exit 1"
    try:
        assert hint in (error(kernel, code)["hint"] or "nothing")
        reply, out, messages = kernel.run(failing)
        assert reply["status"] == "ok" and "so pip fetches nothing" in text_of(messages, "stderr"), out
    finally:
        run(kernel, "del os.environ['HIMALIA_NETWORK']")
    assert "himalia" not in text_of(kernel.run(failing)[2], "stderr")
