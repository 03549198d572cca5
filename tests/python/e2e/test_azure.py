"""The API of Azure's dynamic sessions, request by request as its documentation has them. The unmodified client of LangChain is a test of
`make test-examples`."""

import base64

import httpx
import pytest
from servers import Himalia

FIRST, LATER = "2024-02-02-preview", "2025-02-02-preview"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    server = Himalia(tmp_path_factory.mktemp("azure"), "--azure-sessions")
    yield server
    server.stop()


@pytest.fixture
def pool(gateway):
    """The management endpoint of a pool."""
    with httpx.Client(
        base_url=gateway.url.rstrip("/") + "/azure/python3", headers={"Authorization": f"Bearer {gateway.token}"}, timeout=120
    ) as client:
        yield client


def asked(identifier, version=FIRST, **more):
    return {"identifier": identifier, "api-version": version, **more}


def inline(pool, identifier, code, **more):
    body = {"properties": {"codeInputType": "inline", "executionType": "synchronous", "code": code, **more}}
    response = pool.post("/code/execute", params=asked(identifier), json=body)
    assert response.status_code == 200, response.text
    return response.json()["properties"]


def test_an_identifier_is_a_session_that_keeps_its_variables(gateway, pool):
    first = inline(pool, "a user@example.org / 1", "x = 6\nprint('out')\nx * 7")
    assert (first["status"], first["stdout"], first["stderr"], first["result"]) == ("Success", "out\n", "", 42)
    assert isinstance(first["executionTimeInMilliseconds"], int)
    assert inline(pool, "a user@example.org / 1", "x")["result"] == 6
    other = inline(pool, "another", "x")
    assert other["status"] == "Failure" and "NameError" in other["stderr"]
    [shown] = gateway.http.get("v1/sessions", params={"label": "azure-identifier=another"}).json()["sessions"]
    assert shown["template"] == "python3" and shown["name"].startswith("azure-")
    assert pool.delete("/session", params=asked("another")).status_code == 200
    assert pool.delete("/session", params=asked("another")).status_code == 204
    assert inline(pool, "another", "'new'")["result"] == "new"


def test_an_image_and_a_run_that_takes_too_long(pool):
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    image = inline(pool, "plots", plot)["result"]
    assert image["type"] == "image" and base64.b64decode(image["base64_data"]).startswith(b"\x89PNG")
    late = inline(pool, "plots", "import time\ny = 1\ntime.sleep(600)", timeoutInSeconds=1)
    assert late["status"] == "Failure" and "took too long" in late["stderr"]
    assert inline(pool, "plots", "y")["result"] == 1


def test_a_run_that_ignores_interrupts_is_not_waited_for(gateway, pool):
    stubborn = "import time\nfor _ in range(300):\n  try: time.sleep(1)\n  except BaseException: pass"
    stuck = inline(pool, "stubborn", stubborn, timeoutInSeconds=1)
    assert stuck["status"] == "Failure" and "The code ignores interrupts" in stuck["stderr"], stuck
    [session] = gateway.http.get("v1/sessions", params={"label": "azure-identifier=stubborn"}).json()["sessions"]
    runs = gateway.http.get(f"v1/sessions/{session['id']}/executions").json()["executions"]
    [run] = [one["id"] for one in runs if one["status"] == "running"]
    behind = inline(pool, "stubborn", "1", timeoutInSeconds=1)
    assert behind["status"] == "Failure" and f"waits for {run}" in behind["stderr"] and "restart" in behind["stderr"], behind
    assert gateway.http.post(f"v1/sessions/{session['id']}/restart").status_code == 200
    assert inline(pool, "stubborn", "1")["result"] == 1


def test_later_versions_and_shell_commands(pool):
    ran = pool.post("/executions", params=asked("later", LATER), json={"code": "print('a'); 1 + 1"}).json()
    assert ran["status"] == "Succeeded"
    assert (ran["result"]["stdout"], ran["result"]["executionResult"]) == ("a\n", 2)
    shell = pool.post("/executions", params=asked("later", LATER), json={"shellCommand": "echo b; echo c >&2; exit 3"}).json()
    assert (shell["status"], shell["result"]["stdout"]) == ("3", "b\n") and shell["result"]["stderr"] == "c\n"


def test_files_go_in_and_out(pool):
    sent = pool.post("/files/upload", params=asked("files"), files={"file": ("in put.txt", b"three\n" * 3)})
    assert [one["properties"]["filename"] for one in sent.json()["value"]] == ["in put.txt"], sent.text
    assert inline(pool, "files", "open('out.txt', 'w').write(open('in put.txt').read()[:5])")["result"] == 5
    listed = pool.get("/files", params=asked("files")).json()["value"]
    assert {one["properties"]["filename"]: one["properties"]["size"] for one in listed}.items() >= {"in put.txt": 18, "out.txt": 5}.items()
    assert pool.get("/files/content/out.txt", params=asked("files")).content == b"three"
    missing = pool.get("/files/content/none.txt", params=asked("files"))
    assert missing.status_code == 404 and missing.json()["error"]["code"] == "file_not_found"
    outside = pool.get("/files/content/..%2F..%2Fetc%2Fpasswd", params=asked("files"))
    assert outside.status_code == 400, outside.text

    put = pool.post("/files", params=asked("files", LATER, path="/mnt/data"), files={"file": ("b.bin", bytes(range(256)))})
    assert (put.json()["name"], put.json()["sizeInBytes"]) == ("b.bin", 256)
    assert pool.get("/files/b.bin/content", params=asked("files", LATER)).content == bytes(range(256))
    assert pool.get("/files/b.bin", params=asked("files", LATER)).json()["sizeInBytes"] == 256
    assert pool.delete("/files/b.bin", params=asked("files", LATER)).status_code == 204
    assert "b.bin" not in {one["name"] for one in pool.get("/files", params=asked("files", LATER)).json()["value"]}


def test_what_is_not_offered_is_refused(gateway, pool):
    def refused(response, status, word):
        assert response.status_code == status and word in response.json()["error"]["message"], response.text

    refused(pool.get("/files"), 400, "identifier")
    refused(pool.get("/files", params=asked("i" * 257)), 400, "identifier")
    body = {"properties": {"code": "1", "executionType": "asynchronous"}}
    refused(pool.post("/code/execute", params=asked("a"), json=body), 400, "executionType")
    refused(pool.post("/executions", params=asked("a"), json={"code": "1", "more": 1}), 400, "more")
    refused(pool.get("/metrics", params=asked("a")), 501, "does not offer")
    refused(pool.post("/files/upload", params=asked("a"), files={"other": ("x", b"")}), 400, "no file")
    unknown = httpx.post(
        gateway.url + "azure/no-such/code/execute", params=asked("a"), json={"properties": {"code": "1"}}, headers=dict(pool.headers)
    )
    refused(unknown, 404, "no-such")
    stranger = httpx.get(gateway.url + "azure/python3/files", params=asked("files"), headers={"Authorization": "Bearer x"})
    assert stranger.status_code == 401 and stranger.json()["error"]["code"] == "unauthenticated"
