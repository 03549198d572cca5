"""Real clients, and plain ones in each framing and with each form of the token."""

import json
import os
import signal
import subprocess
import sys
import uuid
from datetime import datetime
from pathlib import Path

import httpx
import nbformat
import pytest
from channels import SUBPROTOCOL, Channels
from waiting import eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

SUPPORT = Path(__file__).resolve().parents[1] / "support"


def notebook(path):
    """A notebook with streams, a result, a table, a plot and state between cells."""
    cells = [
        "import pandas as pd\nframe = pd.DataFrame({'n': range(5)})\nframe['square'] = frame['n'] ** 2\nframe",
        "import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)",
        "import matplotlib.pyplot as plt\nframe.plot(x='n', y='square')\nplt.show()",
        "frame['square'].sum()",
    ]
    content = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    nbformat.write(content, path)


def check(path):
    """The outputs of that notebook."""
    cells = nbformat.read(path, as_version=4).cells
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4]
    assert "<table" in cells[0].outputs[0].data["text/html"]
    streams = {output.name: output.text for output in cells[1].outputs}
    assert streams == {"stdout": "to stdout\n", "stderr": "to stderr\n"}
    assert any("image/png" in output.get("data", {}) for output in cells[2].outputs)
    assert "30" in cells[3].outputs[0].data["text/plain"]


def gateway_settings(server):
    """The environment of a jupyter_client-based gateway client. It cannot send a token on the WebSocket, so the token
    stands in the path."""
    prefix = f"/t/{server.token}/api"
    return {
        **os.environ,
        "JUPYTER_GATEWAY_URL": server.url.rstrip("/"),
        "JUPYTER_GATEWAY_KERNELS_ENDPOINT": f"{prefix}/kernels",
        "JUPYTER_GATEWAY_KERNELSPECS_ENDPOINT": f"{prefix}/kernelspecs",
    }


def test_nbclient_executes_a_notebook(shared, tmp_path):
    notebook(tmp_path / "in.ipynb")
    before = len(shared.http.get("api/kernels").json())
    done = subprocess.run(
        [sys.executable, SUPPORT / "nbclient_run.py", tmp_path / "in.ipynb", tmp_path / "out.ipynb"],
        env=gateway_settings(shared),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check(tmp_path / "out.ipynb")
    assert len(shared.http.get("api/kernels").json()) == before


def test_nbclient_ends_when_a_cell_kills_the_kernel(shared, tmp_path):
    codes = ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "print('never')")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in codes])
    nbformat.write(book, tmp_path / "in.ipynb")
    done = subprocess.run(
        [sys.executable, SUPPORT / "nbclient_run.py", tmp_path / "in.ipynb", tmp_path / "out.ipynb"],
        env=gateway_settings(shared),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode != 0 and "KernelDied" in done.stderr, done.stderr[-3000:]


def test_papermill_ends_when_the_kernel_is_killed_while_a_cell_runs(shared, tmp_path):
    codes = ("print(6 * number)", "import os, time\nprint(os.getpid(), flush=True)\nopen(told, 'w').write(str(os.getpid()))\ntime.sleep(600)", "print('never')")
    cells = [nbformat.v4.new_code_cell(code) for code in codes]
    cells.insert(0, nbformat.v4.new_code_cell("number, told = 0, ''", metadata={"tags": ["parameters"]}))
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
    nbformat.write(book, tmp_path / "in.ipynb")
    told = tmp_path / "told"
    before = len(shared.http.get("api/kernels").json())
    parameters = json.dumps({"number": 7, "told": str(told)})
    run = subprocess.Popen(
        [sys.executable, SUPPORT / "papermill_run.py", tmp_path / "in.ipynb", tmp_path / "out.ipynb", parameters],
        env=gateway_settings(shared),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: told.exists() and told.read_text(), "the cell runs", 60)
        os.kill(int(told.read_text()), signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode != 0 and "KernelDied" in errors, errors[-3000:]
    texts = [output["text"] for cell in nbformat.read(tmp_path / "out.ipynb", as_version=4).cells for output in cell.get("outputs", ()) if "text" in output]
    assert texts[-2:] == ["42\n", told.read_text() + "\n"] and "never\n" not in texts, texts
    assert len(shared.http.get("api/kernels").json()) == before


@pytest.mark.parametrize("framing", ["v1", "legacy"])
def test_text_that_is_no_unicode_is_replaced_and_nothing_around_it_is_lost(shared, kernel_id, framing):
    with Channels(shared, kernel_id, framing) as client:
        done = client.run("print('first'); print('n\\udcff'); print('third')")
        assert done.text() == "first\nn\ufffd\nthird\n"


@pytest.mark.parametrize("framing", ["v1", "legacy"])
def test_a_plain_websocket_client_executes(shared, kernel_id, framing):
    with Channels(shared, kernel_id, framing) as client:
        done = client.run("print('ünïcödé €')\n6 * 7")
        assert done.content["status"] == "ok"
        assert done.text() == "ünïcödé €\n"
        assert done.of("execute_result")[0]["content"]["data"]["text/plain"] == "42"


@pytest.mark.parametrize("form", ["token", "Bearer", "query", "path"])
def test_each_form_of_the_token_is_accepted(shared, kernel_id, form):
    prefix, query, headers = "", "", {}
    if form == "query":
        query = f"?token={shared.token}"
    elif form == "path":
        prefix = f"t/{shared.token}/"
    else:
        headers = {"Authorization": f"{form} {shared.token}"}
    reply = httpx.get(f"{shared.url}{prefix}api/kernels/{kernel_id}{query}", headers=headers, trust_env=False)
    assert reply.status_code == 200
    url = shared.websocket_url(f"{prefix}api/kernels/{kernel_id}/channels{query}")
    with connect(url, additional_headers=headers, subprotocols=[SUBPROTOCOL], proxy=None) as socket:
        assert socket.subprotocol == SUBPROTOCOL


@pytest.mark.parametrize("where", ["token mistaken", "Bearer mistaken", "", "?token=mistaken", "t/mistaken/"])
def test_a_wrong_or_missing_token_is_refused_everywhere(gateway, where):
    """On a gateway of its own: too many wrong tokens make it slow for all clients at this address."""
    headers = {"Authorization": where} if " " in where else {}
    query = where if where.startswith("?") else ""
    prefix = where if where.endswith("/") else ""
    for path in ("api/kernels", "api/sessions", "api/me", "api/kernelspecs", "api/status"):
        reply = httpx.get(f"{gateway.url}{prefix}{path}{query}", headers=headers, trust_env=False)
        assert reply.status_code == 401, path
        assert "mistaken" not in reply.text
    kernel_id = gateway.start_kernel()
    with pytest.raises(InvalidStatus) as refused:
        connect(
            gateway.websocket_url(f"{prefix}api/kernels/{kernel_id}/channels{query}"),
            additional_headers=headers,
            proxy=None,
        )
    assert refused.value.response.status_code == 401
    assert "mistaken" not in gateway.log.read_text()


def test_the_life_of_a_kernel_over_rest(shared):
    reply = shared.http.post("api/kernels", json={"name": "python3"})
    model = reply.json()
    kernel_id = model["id"]
    assert reply.status_code == 201
    assert reply.headers["location"].endswith(f"/api/kernels/{kernel_id}")
    assert model["connections"] == 0
    datetime.strptime(model["last_activity"], "%Y-%m-%dT%H:%M:%S.%fZ")
    assert kernel_id in [kernel["id"] for kernel in shared.http.get("api/kernels").json()]

    with Channels(shared, kernel_id) as client:
        assert client.run("x = 1; import os; print(os.getpid())").text().strip().isdigit()
        assert shared.http.get(f"api/kernels/{kernel_id}").json()["connections"] == 1
    restarted = shared.http.post(f"api/kernels/{kernel_id}/restart", json={})
    assert restarted.status_code == 200 and restarted.json()["id"] == kernel_id
    with Channels(shared, kernel_id) as client:
        done = client.run("x")
        assert (done.content["ename"], done.content["execution_count"]) == ("NameError", 1)

    assert shared.http.delete(f"api/kernels/{kernel_id}").status_code == 204
    assert shared.http.get(f"api/kernels/{kernel_id}").status_code == 404
    assert shared.http.delete(f"api/kernels/{kernel_id}").status_code == 404


def test_a_session_keeps_its_kernel(shared):
    body = {"path": "work/first.ipynb", "name": "first", "type": "notebook", "kernel": {"name": "python3"}}
    session = shared.http.post("api/sessions", json=body)
    assert session.status_code == 201
    again = shared.http.post("api/sessions", json=body)
    assert again.json()["kernel"]["id"] == session.json()["kernel"]["id"]
    moved = shared.http.patch(f"api/sessions/{session.json()['id']}", json={"path": "work/second.ipynb"})
    assert moved.json()["path"] == "work/second.ipynb"
    assert shared.http.delete(f"api/sessions/{session.json()['id']}").status_code == 204
    assert shared.http.get(f"api/kernels/{session.json()['kernel']['id']}").status_code == 404


def test_odd_names_and_ids_of_kernels_start_the_native_one(shared):
    body = {"path": "work/odd.ipynb", "type": "notebook", "kernel": {"name": "python", "id": "foo"}}
    reply = shared.http.post("api/sessions", json=body)
    assert reply.status_code == 201, reply.text
    kernel = reply.json()["kernel"]
    assert kernel["name"] == "python3" and str(uuid.UUID(kernel["id"])) == kernel["id"]
    assert reply.headers["content-security-policy"].endswith("default-src 'none'")
    assert shared.http.delete(f"api/sessions/{reply.json()['id']}").status_code == 204


def test_widgets_exchange_binary_buffers_in_each_framing(shared, kernel_id):
    code = (
        "import comm\n"
        "def opened(channel, message):\n"
        "    def mirror(m): channel.send({}, buffers=[bytes(b)[::-1] for b in m['buffers']])\n"
        "    channel.on_msg(mirror)\n"
        "comm.get_comm_manager().register_target('mirror', opened)"
    )
    payload = [bytes(range(256)) * 4096, b"", b"\x00"]
    for framing in ("v1", "legacy"):
        with Channels(shared, kernel_id, framing) as client:
            client.run(code)
            client.send("comm_open", {"comm_id": framing, "target_name": "mirror", "data": {}})
            client.send("comm_msg", {"comm_id": framing, "data": {}}, buffers=payload)
            answer = client.until(lambda m: m["msg_type"] == "comm_msg")[-1]
            assert answer["buffers"] == [part[::-1] for part in payload]
