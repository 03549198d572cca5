"""Libraries with state that a fork can break: used in the parent, forked, used in the branch and in the parent again."""

import os

import pytest
from branching import Family, request_fork
from fork_matrix import REFUSED, WARNED, WORKS, need
from processes import alive
from waiting import eventually


@pytest.fixture
def family(kernel_python):
    with Family(kernel_python) as family:
        yield family


@pytest.fixture
def kernel(family):
    return family.kernel


def kinds(content):
    return {(hazard["kind"], hazard["severity"]) for hazard in content["hazards"]}


def named(rows):
    """Parameters of a test, one for each row."""
    return pytest.mark.parametrize("row", rows, ids=[row.name for row in rows])


@named(WORKS)
def test_what_works_in_both(family, kernel, row):
    need(kernel, row.module)
    assert kernel.run(row.before)[0]["status"] == "ok"
    branch = family.fork()
    assert kinds(branch.forked) == {(kind, "warn") for kind in row.warned}
    for side in (branch, kernel):
        reply, out, _ = side.run(row.after, timeout=60)
        assert reply["status"] == "ok", reply
        assert out
    # What it has from its parent must not crash its end.
    assert branch.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
    eventually(lambda: not alive(branch.pid), "the branch ends")
    assert kernel.run("print(6 * 7)")[1] == "42\n"


@named(REFUSED)
def test_what_is_refused_until_it_is_gone(family, kernel, row):
    need(kernel, row.module)
    assert kernel.run(row.before)[0]["status"] == "ok"
    try:
        reply, _ = request_fork(kernel)
        assert (reply["status"], reply["ename"]) == ("error", "ForkHazard"), reply
        assert {kind for kind, severity in kinds(reply) if severity == "refuse"} == row.kinds
        assert [words for words in row.says if words not in reply["evalue"]] == [], reply["evalue"]
        assert kernel.run("print(6 * 7)")[1] == "42\n"
    finally:
        if row.after is not None:
            assert kernel.run(row.after + "\nimport gc; gc.collect();")[0]["status"] == "ok"
    if row.after is not None:
        assert kinds(family.fork().forked) == set()


@named(WARNED)
def test_what_is_reported(family, kernel, row):
    try:
        assert kernel.run(row.before)[0]["status"] == "ok"
        branch = family.fork()
        assert kinds(branch.forked) == {(kind, "warn") for kind in row.kinds}
        reply, out, _ = branch.run(row.inside, timeout=30)
        assert out == row.printed, reply
        # Its end must not take anything of the parent's with it.
        assert branch.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
        eventually(lambda: not alive(branch.pid), "the branch ends")
        assert kernel.run(row.still_works)[1] == "True\n"
    finally:
        assert kernel.run(row.after)[0]["status"] == "ok"


def test_the_debugger_is_refused(kernel_python):
    from test_start import debug

    with Family(kernel_python) as family:
        # JupyterLab asks this of every kernel; it starts nothing yet.
        assert debug(family.kernel, 1, "debugInfo")["body"]["isStarted"] is False
        branch = family.fork()
        assert debug(branch, 1, "debugInfo")["body"]["isStarted"] is False
        arguments = dict(clientID="t", adapterID="t", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        assert debug(branch, 2, "initialize", **arguments)["success"]
        reply, _ = request_fork(branch)
        assert reply["ename"] == "ForkHazard" and ("debugger", "refuse") in kinds(reply)
        assert family.kernel.run("print(1)")[1] == "1\n"
        assert os.path.exists(f"/proc/{branch.pid}")
