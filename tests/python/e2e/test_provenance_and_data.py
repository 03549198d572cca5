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
    assert shown.pop("returned_chars") == 0, "nothing was, over MCP"
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


def test_an_execution_says_what_it_took(shared, session):
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint('x' * 10_000)"
    usage = run(shared, session, spin)["usage"]
    assert usage["cpu_ms"] >= 290 and usage["bytes_out"] > 10_000
    peak = usage["peak_memory_bytes"]
    assert peak is None or peak > 10 << 20
    assert run(shared, session, "1")["usage"]["cpu_ms"] < 250


def test_provenance_changes_with_what_is_installed(shared, session):
    def packages(code):
        shown = shared.http.get(f"v1/executions/{run(shared, session, code)['id']}").json()
        return shown["provenance"]["packages_hash"], shown["provenance"]["lock_hash"]

    before = packages("import os, sys, tempfile\nplace = tempfile.mkdtemp()\nsys.path.append(place)")
    assert len(before[0]) == 16 and packages("1") == before
    # What an installer leaves.
    after = packages("os.makedirs(f'{place}/thing-1.0.dist-info')")
    assert after[0] != before[0] and after[1] == before[1]
    # It is a part of the record: a later installation does not change it.
    id = run(shared, session, "1")["id"]
    run(shared, session, "os.makedirs(f'{place}/other-1.0.dist-info')")
    assert shared.http.get(f"v1/executions/{id}").json()["provenance"]["packages_hash"] == after[0]


def test_clients_of_one_token_name_themselves(shared, session):
    def by(name):
        headers = {} if name is None else {"X-Himalia-Caller": name.encode()}
        reply = shared.http.post(f"v1/sessions/{session}/executions", json={"code": "1"}, headers=headers, timeout=120)
        return reply

    named = by("ada\u202e's agent").json()
    assert (named["caller"], named["client"]) == ("operator", "ada's agent")
    assert "client" not in by(None).json()
    refused = by("x" * 65)
    assert refused.status_code == 400 and "X-Himalia-Caller" in refused.json()["detail"]
    listed = shared.http.get(f"v1/sessions/{session}/executions").json()["executions"]
    assert listed[-2]["client"] == "ada's agent" and "client" not in listed[-1]
    entries = shared.http.get(f"v1/sessions/{session}/history").json()["history"]
    assert entries[-2]["client"] == "ada's agent" and entries[-2]["caller"] == "operator"
