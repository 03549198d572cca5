"""The shapes of OpenAI's containers, request by request. The unmodified client is a test of `make test-examples`."""

import httpx
import pytest
from servers import Himalia


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    server = Himalia(tmp_path_factory.mktemp("openai"), "--openai-containers")
    yield server
    server.stop()


@pytest.fixture
def api(gateway):
    headers = {"Authorization": f"Bearer {gateway.token}"}
    with httpx.Client(base_url=gateway.url.rstrip("/") + "/openai/v1", headers=headers, timeout=120) as client:
        yield client


def test_a_container_is_a_session(gateway, api):
    made = api.post("/containers", json={"name": "one", "expires_after": {"anchor": "last_active_at", "minutes": 5}})
    assert made.status_code == 200, made.text
    container = made.json()
    assert (container["object"], container["name"], container["status"]) == ("container", "one", "running")
    assert container["expires_after"] == {"anchor": "last_active_at", "minutes": 5}
    session = container["id"].removeprefix("cntr_")
    shown = gateway.http.get(f"v1/sessions/{session}").json()
    assert (shown["labels"]["openai-container"], shown["network"], shown["idle_timeout_s"]) == ("one", "none", 300)
    ran = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": "open('made.txt', 'w').write('abc')"})
    assert ran.json()["status"] == "ok"

    second = api.post("/containers", json={"name": "two"}).json()
    gateway.http.post("v1/sessions", json={})
    listed = api.get("/containers", params={"limit": 1}).json()
    assert ([one["id"] for one in listed["data"]], listed["has_more"]) == ([second["id"]], True)
    listed = api.get("/containers", params={"limit": 1, "after": listed["last_id"]}).json()
    assert ([one["id"] for one in listed["data"]], listed["has_more"]) == ([container["id"]], False)
    assert [one["id"] for one in api.get("/containers", params={"name": "two"}).json()["data"]] == [second["id"]]

    files = f"/containers/{container['id']}/files"
    put = api.post(files, files={"file": ("in put.bin", bytes(range(256)))}).json()
    assert (put["object"], put["path"], put["bytes"]) == ("container.file", "/mnt/data/in put.bin", 256)
    assert {one["path"] for one in api.get(files, params={"limit": 100}).json()["data"]} >= {"/mnt/data/in put.bin", "/mnt/data/made.txt"}
    assert api.get(f"{files}/{put['id']}").json() == put
    assert api.get(f"{files}/{put['id']}/content").content == bytes(range(256))
    assert api.delete(f"{files}/{put['id']}").json()["deleted"] is True
    gone = api.get(f"{files}/{put['id']}/content")
    assert gone.status_code == 404 and gone.json()["error"]["type"] == "invalid_request_error"

    assert api.delete(f"/containers/{container['id']}").json()["deleted"] is True
    assert api.get(f"/containers/{container['id']}").status_code == 404
    assert api.get(files).status_code == 404
    api.delete(f"/containers/{second['id']}")


def test_what_is_not_offered_is_refused(gateway, api):
    def refused(response, status, param=None):
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (status, param), response.text

    refused(api.post("/containers", json={"name": "a", "file_ids": ["file_1"]}), 400, "file_ids")
    refused(api.post("/containers", json={"name": "a", "network_policy": {"type": "allowlist"}}), 400, "network_policy")
    refused(api.get("/containers", params={"limit": 101}), 400, "limit")
    session = gateway.http.post("v1/sessions", json={}).json()["id"]
    refused(api.get(f"/containers/cntr_{session}"), 404)
    refused(api.post("/responses", json={}), 501)
    stranger = httpx.get(gateway.url + "openai/v1/containers", headers={"Authorization": "Bearer x"})
    assert stranger.status_code == 401 and stranger.json()["error"]["code"] == "unauthenticated"
