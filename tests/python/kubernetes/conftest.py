"""Fixtures of the tests on a real cluster."""

import pytest
from pods import Gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """One gateway for the tests of a file."""
    server = Gateway(tmp_path_factory.mktemp("gateway"))
    yield server
    server.stop()
