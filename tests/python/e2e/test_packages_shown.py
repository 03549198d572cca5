"""Every package of the environment that makes plots, tables, bars or widgets shows one result by every API, and its cell succeeds."""

import anyio
import nbformat
import pytest
from agents import agent, text
from channels import Channels

FRAME = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, None], 'b': ['x', 'y', 'z']})\n"
# `{what it is: (code, MIME type of the result, words that a model reads)}`
SHOWN = {
    "matplotlib, the figure as a value": ("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])\nfig", "image/png", "image"),
    "seaborn": (FRAME + "import seaborn as sns\nsns.scatterplot(df, x='a', y='a');", "image/png", "image"),
    "plotly": ("import plotly.express as px\npx.line(x=[1, 2], y=[3, 4])", "application/vnd.plotly.v1+json", "plotly"),
    "plotly, shown": ("import plotly.graph_objects as go\ngo.Figure(go.Bar(x=[1], y=[2])).show()", "application/vnd.plotly.v1+json", "plotly"),
    "altair": (FRAME + "import altair as alt\nalt.Chart(df).mark_point().encode(x='a', y='a')", "text/html", "alt.Chart"),
    "missingno": (FRAME + "import missingno\nmissingno.matrix(df);", "image/png", "image"),
    "squarify": ("import squarify\nsquarify.plot([3, 2, 1]);", "image/png", "image"),
    "wordcloud": ("from wordcloud import WordCloud\nWordCloud(width=80, height=40).generate('one two three').to_image()", "image/png", "image"),
    "networkx": ("import networkx as nx\nnx.draw(nx.path_graph(3))", "image/png", "image"),
    "statsmodels": ("import statsmodels.api as sm\nsm.OLS([1.0, 2, 4], [1.0, 2, 3]).fit().summary()", "text/html", "OLS Regression"),
    "scikit-learn": ("from sklearn.linear_model import LinearRegression\nLinearRegression()", "text/html", "LinearRegression()"),
    "pandas": (FRAME + "df", "text/html", "x"),
    "pandas, styled": (FRAME + "df.style", "text/html", ""),
    "pillow": ("from PIL import Image\nImage.new('RGB', (8, 8))", "image/png", "image"),
    "sympy": ("import sympy\nsympy.sqrt(8)", "text/latex", "sqrt"),
    "tabulate": (FRAME + "print(df.to_markdown())", None, "|"),
    "rich": ("from rich import print\nprint({'one': 1})", None, "one"),
    "tqdm": ("from tqdm import tqdm\nfor _ in tqdm(range(5)): pass", None, "5/5"),
    "tqdm of notebooks": ("from tqdm.auto import tqdm\nfor _ in tqdm(range(5)): pass", "application/vnd.jupyter.widget-view+json", "5/5"),
    "ipywidgets": ("import ipywidgets\nipywidgets.IntSlider(value=7)", "application/vnd.jupyter.widget-view+json", "IntSlider"),
    # The last one: the backend stays the session's.
    "matplotlib, shown without a window": ("import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([3, 1])\nplt.show()", "image/png", "image"),
}  # fmt: skip


@pytest.fixture(scope="module")
def session(shared):
    session = shared.start_session()
    yield session
    shared.delete_session(session)


def types_of(outputs):
    """The MIME types of outputs that are displayed, one list for each."""
    return [sorted(output["data"]) for output in outputs if output.get("data")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SHOWN)
def test_it_is_shown_once_and_its_cell_succeeds(shared, session, name):
    code, kind, words = SHOWN[name]
    done = shared.http.post(f"v1/sessions/{session}/executions", json={"code": code}, timeout=120).json()
    assert done["status"] == "ok" and not done.get("error"), done
    found = types_of(done["outputs"])
    assert kind is None or [any(one.startswith(kind) for one in types) for types in found] == [True], (found, done["text"])
    with Channels(shared, session) as client:
        ran = client.run(code, 120)
        assert ran.content["status"] == "ok", ran.content
        displayed = [message["content"] for message in (*ran.of("display_data"), *ran.of("execute_result"))]
        assert kind is None or [any(one.startswith(kind) for one in content["data"]) for content in displayed] == [True]
    book = nbformat.reads(shared.http.get(f"v1/sessions/{session}/notebook.ipynb").text, as_version=4)
    nbformat.validate(book)
    cell = book.cells[-1]
    assert cell.source == code and not any(output.output_type == "error" for output in cell.outputs)
    assert kind is None or any(one.startswith(kind) for types in types_of(cell.outputs) for one in types), cell.outputs

    async def ask():
        async with agent(shared) as client:
            return await client.call_tool("execute", {"session": session, "code": code})

    answer = anyio.run(ask)
    assert not answer.is_error, text(answer)
    said = text(answer) + " ".join(block.type for block in answer.content)
    assert words in said, said
