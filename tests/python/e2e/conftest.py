"""Fixtures: servers, and kernels on them."""

import pytest
from channels import Channels
from servers import Himalia, JupyterServer


@pytest.fixture(scope="session")
def shared(tmp_path_factory, kernel_python):
    """One gateway for all tests that do not harm it."""
    gateway = Himalia(tmp_path_factory.mktemp("shared"))
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway for this test alone."""
    own = Himalia(tmp_path / "gateway")
    yield own
    own.stop()


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory, kernel_python):
    """jupyter_server, to compare with."""
    server = JupyterServer(tmp_path_factory.mktemp("jupyter"), kernel_python)
    yield server
    server.stop()


@pytest.fixture
def kernel_id(shared):
    """A kernel on the shared gateway."""
    kernel = shared.start_kernel()
    yield kernel
    shared.delete_kernel(kernel)


@pytest.fixture
def client(shared, kernel_id):
    """A v1 connection to that kernel."""
    with Channels(shared, kernel_id) as channels:
        yield channels


@pytest.fixture
def session(shared):
    """A session of the native API on the shared gateway."""
    session = shared.start_session()
    yield session
    shared.delete_session(session)
