"""Replaces the fixtures of jupyter_server's tests that start its server: the tests use a gateway that is already there.

`run.py` puts this file next to the tests. The server is at JUDGED_URL and accepts JUDGED_TOKEN. It finds kernelspecs in JUDGED_SPECS.
"""

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import httpx
import pytest
from tornado.httpclient import AsyncHTTPClient

URL = urlsplit(os.environ["JUDGED_URL"])
HEADERS = {"Authorization": f"token {os.environ['JUDGED_TOKEN']}"}


@pytest.fixture
def api():
    """The server's REST API. No session or kernel of a test is left."""
    with httpx.Client(base_url=f"{URL.geturl()}api/", headers=HEADERS, timeout=60, trust_env=False) as client:
        yield client
        for kind in ("sessions", "kernels"):
            for one in client.get(kind).json():
                client.delete(f"{kind}/{one['id']}")


@pytest.fixture
def jp_serverapp(api):
    """What tests read of a server's objects. Assigning to it changes nothing on the server."""

    def get_kernel(kernel_id):
        return SimpleNamespace(**api.get(f"kernels/{kernel_id}").raise_for_status().json())

    default = api.get("kernelspecs").json()["default"]
    manager = SimpleNamespace(default_kernel_name=default, use_pending_kernels=False, get_kernel=get_kernel)
    return SimpleNamespace(kernel_manager=manager, session_manager=SimpleNamespace(create_session=None))


@pytest.fixture
def jp_data_dir():
    """The directory of kernelspecs, empty after the test."""
    directory = Path(os.environ["JUDGED_SPECS"])
    yield directory
    shutil.rmtree(directory / "kernels", ignore_errors=True)


@pytest.fixture
def jp_kernelspecs(jp_kernelspecs, api):
    """The samples. The server finds new kernelspecs after some seconds."""
    end = time.monotonic() + 30
    while "sample2" not in api.get("kernelspecs").json()["kernelspecs"] and time.monotonic() < end:
        time.sleep(0.2)


@pytest.fixture
def jp_base_url():
    return URL.path


@pytest.fixture
def jp_http_port():
    return URL.port


@pytest.fixture
def jp_auth_header():
    return dict(HEADERS)


@pytest.fixture
def http_server_client():
    """Sends requests to the server."""

    class Client:
        def fetch(self, path, **options):
            return AsyncHTTPClient().fetch(f"{URL.scheme}://{URL.netloc}{path}", **options)

    return Client()


@pytest.fixture(autouse=True)
def jp_server_cleanup():
    """There is no server in this process."""
