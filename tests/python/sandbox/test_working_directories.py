"""Case S8: a working directory that the caller chooses, or that code in the sandbox prepared, leads to no file of the host."""

import pytest

LOOK = """
import os
try: here = os.getcwd()
except OSError as error: here = repr(error)
seen = [up for up in range(20) if os.path.exists('../' * up + {canary!r}.lstrip('/'))]
print(here, seen, os.path.exists({canary!r}), sep='|')
"""


@pytest.fixture
def canary(tmp_path):
    """A file of the host that no sandbox shows."""
    path = tmp_path / "canary"
    path.write_text("of the host")
    return str(path)


def ways(run):
    """Descriptors that a program of the gateway's may have left open, by number and by a link that code made; roots of processes."""
    numbers = range(3, 16)
    links = "import os\nfor n in %r: os.path.lexists(f'way{n}') or os.symlink(f'/proc/self/fd/{n}', f'way{n}')"
    run(links % list(numbers))
    yield from (f"/proc/self/fd/{number}" for number in numbers)
    yield from (f"way{number}" for number in numbers)
    yield from ("/proc/1/cwd", "/proc/1/root", "/proc/self/root/..", "/proc/thread-self/root")


def test_a_working_directory_leads_to_no_file_of_the_host(gateway, session, canary):
    base = f"v1/sessions/{session['id']}"

    def run(code, **more):
        reply = gateway.http.post(f"{base}/executions", json={"code": code, **more}, timeout=120)
        assert reply.status_code == 200 and reply.json()["status"] == "ok", reply.text
        return reply.json()["text"]

    begun = []
    for way in ways(run):
        reply = gateway.http.post(f"{base}/kernels", json={"cwd": way}, timeout=120)
        if reply.status_code != 201:
            assert reply.status_code == 400 and reply.json()["field"] == "cwd", (way, reply.text)
            continue
        kernel = reply.json()["id"]
        here, seen, there = run(LOOK.format(canary=canary), kernel=kernel).strip().split("|")
        assert here.startswith("/") and (seen, there) == ("[]", "False"), (way, here, seen, there)
        begun.append(way)
        assert gateway.http.delete(f"{base}/kernels/{kernel}").status_code == 204
    # Directories there are: the test can fail.
    assert "/proc/self/root/.." in begun, begun
