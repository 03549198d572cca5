"""Files that are kept for a session in a container: a volume of the engine."""

import subprocess

import pytest
from levels import ENGINE
from waiting import eventually

pytestmark = pytest.mark.timeout(300)


def docker(*arguments):
    """The engine's client; what it printed."""
    return subprocess.run(["docker", "--host", ENGINE, *arguments], check=True, capture_output=True, text=True, timeout=110).stdout


def volumes():
    """All volumes of the engine."""
    return set(docker("volume", "ls", "--quiet").split())


@pytest.fixture
def kept(gateway):
    """A session whose files are kept, and its volume."""
    before = volumes()
    made = gateway.session("kept")
    (volume,) = volumes() - before
    yield made["id"], volume
    gateway.end(made["id"])
    eventually(lambda: volume not in volumes(), "the volume is removed with its session", 60)


def test_who_limits_them_is_said(gateway, kept):
    """The engine enforces the limit where its disk has quotas; else an upload above the limit succeeds."""
    session, _ = kept
    enforced = gateway.show(session)["limits"]["disk_bytes"]["enforcement"]
    assert enforced in ("hard", "none")
    reply = gateway.http.put(f"v1/sessions/{session}/files/large", content=b"x" * (30 << 20))
    assert reply.status_code == (201 if enforced == "none" else 507), reply.text
