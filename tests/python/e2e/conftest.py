"""Fixtures: servers, and kernels on them."""

import pytest
from channels import Channels
from leftovers import footprint, sessions_of, states_of
from postgres import Postgres
from servers import Himalia, JupyterServer
from waiting import eventually


@pytest.fixture(scope="session")
def shared(tmp_path_factory, kernel_python):
    """One gateway for all tests that do not harm it."""
    gateway = Himalia(tmp_path_factory.mktemp("shared"))
    yield gateway
    gateway.stop()


@pytest.fixture(autouse=True)
def nothing_is_left_on_the_shared_gateway(request):
    """A test on the shared gateway ends what it started there, and the gateway cleans up after it."""
    if "shared" not in request.fixturenames:
        yield
        return
    shared = request.getfixturevalue("shared")
    # A kernel of a whole module may be starting, and what it needs is still to come.
    eventually(lambda: "starting" not in states_of(shared), lambda: f"kernels are {states_of(shared)}", 60)
    sessions, things = sessions_of(shared), footprint(shared)
    yield
    eventually(lambda: sessions_of(shared) <= sessions, lambda: f"left alive: {sessions_of(shared) - sessions}")
    eventually(lambda: footprint(shared) <= things, lambda: f"left behind: {footprint(shared) - things}")


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


@pytest.fixture(scope="module")
def postgres():
    """A server for the tests of this file."""
    server = Postgres()
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
