"""A gateway, and the Python client from its sources."""

import sys
from pathlib import Path

import pytest
from servers import Himalia

CLIENT = Path(__file__).parents[3] / "clients" / "python"
sys.path.insert(0, str(CLIENT))


@pytest.fixture(scope="session")
def shared(tmp_path_factory, kernel_python):
    """One gateway for the tests that do not harm it."""
    gateway = Himalia(tmp_path_factory.mktemp("gateway"))
    yield gateway
    gateway.stop()


@pytest.fixture
def connected(shared):
    """A client of it."""
    from himalia import Gateway

    with Gateway(shared.url, token_file=shared.token_file, caller="tests") as gateway:
        yield gateway


@pytest.fixture
def session(connected):
    """A new session, which ends with the test."""
    with connected.session() as session:
        yield session
