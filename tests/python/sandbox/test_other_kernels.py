"""Kernels that are not ours run in the same sandbox: one in C++, one for another language."""

import os
from pathlib import Path

import pytest
from channels import Channels
from levels import LOCAL, AtLevel

CELLS = {
    "xpython": ("import os; print(6 * 7, os.getuid(), os.path.exists('/root/.bashrc'))", "42 1000 False\n"),
    "bash": ("echo $((6 * 7)) $(id -u); ls /root/.bashrc 2>&1 | grep -c 'No such file'", "42 1000\n1\n"),
}


@pytest.fixture(scope="module")
def with_others(tmp_path_factory):
    """A gateway that finds their kernelspecs on the Jupyter path."""
    prefix = Path(os.environ["HIMALIA_OTHER_KERNELS"])
    own = AtLevel(
        tmp_path_factory.mktemp("others"), LOCAL[0], "--kernelspec-dir", str(prefix / "share/jupyter/kernels")
    )
    yield own
    own.stop()


@pytest.mark.parametrize("name", CELLS)
def test_it_runs_sandboxed_and_keeps_its_state(with_others, name):
    code, expected = CELLS[name]
    reply = with_others.http.post("api/kernels", json={"name": name})
    assert reply.status_code == 201, reply.text
    assert reply.headers["x-himalia-isolation"] == "namespaces"
    kernel = reply.json()["id"]
    with Channels(with_others, kernel) as client:
        assert client.run(code).text() == expected
        client.run("kept = 5" if name == "xpython" else "kept=5")
        assert client.run("print(kept)" if name == "xpython" else "echo $kept").text() == "5\n"
    # A fork is a thing of our launcher's: others say that they cannot.
    problem = with_others.http.post(f"v1/sessions/{kernel}/fork", json={"count": 1})
    assert problem.status_code == 501 and problem.json()["code"] == "unsupported", problem.text
    with_others.delete_kernel(kernel)


def test_a_further_kernel_finds_what_is_in_the_sandbox(with_others):
    session = with_others.http.post("v1/sessions", json={"template": "plain"})
    assert session.status_code == 201, session.text
    base = f"v1/sessions/{session.json()['id']}"

    def run(code, **more):
        reply = with_others.http.post(f"{base}/executions", json={"code": code, **more}, timeout=120)
        assert reply.status_code == 200, reply.text
        return reply.json()["text"]

    second = with_others.http.post(f"{base}/kernels", json={})
    assert second.status_code == 201, second.text
    assert second.json()["cwd"] == "/session" and second.json()["started_by"] in ("zygote", "cold")
    run("open('shared', 'w').write('one'); kept = 1")
    second = second.json()["id"]
    assert run("import os; print(open('shared').read(), 'kept' in dir(), os.getuid())", kernel=second) == "one False 1000\n"
    other = with_others.http.post(f"{base}/kernels", json={"kernelspec": "xpython"})
    assert other.status_code == 201, other.text
    assert run("print(open('shared').read(), 'kept' in dir())", kernel=other.json()["id"]) == "one False\n"
    assert len(with_others.http.get(f"{base}/kernels").json()["kernels"]) == 3
    assert with_others.http.delete(base).status_code == 204
