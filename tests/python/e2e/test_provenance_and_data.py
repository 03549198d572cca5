"""What a result tells beside its text: what frames and figures hold, where it comes from, failures in a row."""

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def session(shared):
    """A session of the native API on the shared gateway."""
    reply = shared.http.post("v1/sessions", json={"limits": {"open_files": 1000}})
    assert reply.status_code == 201, reply.text
    yield reply.json()["id"]
    shared.http.delete(f"v1/sessions/{reply.json()['id']}")


def run(server, session, code, status=200, **more):
    """Run code and return the answer's JSON."""
    reply = server.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code == status, reply.text
    return reply.json()


def test_a_frame_comes_as_data_beside_its_text(shared, session):
    code = "import pandas as pd\ndf = pd.DataFrame({'region': ['n', 's'], 'price': [3, 1.5]})\ndf"
    (output,) = run(shared, session, code)["outputs"]
    assert output["table"]["shape"] == [2, 2] and output["table"]["rows"] == [["n", 3.0], ["s", 1.5]]
    assert [column["name"] for column in output["table"]["columns"]] == ["region", "price"]
    assert "region" in output["data"]["text/plain"]
    # One that is large is kept beside the result, as other large values are.
    (output,) = run(shared, session, "pd.DataFrame({f'column {n}': ['x' * 90] for n in range(40)})")["outputs"]
    reply = shared.http.get(f"v1/artifacts/{output['table']['artifact'].removeprefix('sha256:')}")
    assert reply.json()["shape"] == [1, 40]


def test_a_figure_comes_with_the_data_of_its_plot(shared, session):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], label='a'); plt.title('T'); plt.show()"
    (output,) = run(shared, session, code)["outputs"]
    (axes,) = output["plot"]["axes"]
    assert axes["title"] == "T"
    assert axes["series"] == [{"kind": "line", "label": "a", "points": 2, "x": [1, 2], "y": [3, 4]}]
    assert "table" not in output and output["data"]["image/png"]["width"] > 100
    assert len(json.dumps(output)) < 1000


def test_an_execution_says_where_it_comes_from(shared, session, kernel_python):
    result = run(shared, session, "1")
    shown = shared.http.get(f"v1/executions/{result['id']}").json()
    provenance = shown.pop("provenance")
    assert shown == result, "the result is the same"
    assert (shown["caller"], provenance["kernelspec"]) == ("operator", "python3")
    assert provenance["limits"]["open_files"] == 1000
    assert provenance["lock_hash"] == Path(kernel_python).parents[1].name
    assert provenance["image"] is provenance["image_digest"] is None


def test_a_loop_of_failures_ends(shared, session):
    run(shared, session, "1")
    for failures in (1, 2):
        result = run(shared, session, f"1/0 # attempt {failures}", max_failures=2)
        assert (result["status"], result["failures_in_a_row"]) == ("error", failures)
    refused = run(shared, session, "1", 409, max_failures=2)
    assert (refused["code"], refused["retryable"]) == ("failure_limit", False)
    assert "failures_in_a_row" not in run(shared, session, "1")
    assert run(shared, session, "1", max_failures=2)["status"] == "ok"
