"""`python`, `pip` and the other programs that a command finds are those of the kernel, wherever the command is run from, at every level.

Nothing of the gateway's own environment decides or shows: this gateway has a `PATH` with another `python`, and a `VIRTUAL_ENV`.
"""

import base64
import json
import os
import re
from pathlib import Path

import pytest
from channels import Channels
from e2b import PtySize
from e2b_code_interpreter import Sandbox
from e2b_gateway import variables
from levels import CONTAINERS, ENGINE, LEVELS, USER, AsOrdinaryUser, AtLevel
from servers import Himalia
from test_packages import wheel
from waiting import eventually

pytestmark = pytest.mark.timeout(400)

# Where a kernel's environment is seen to be.
PLACES = {"none": None, **dict.fromkeys(CONTAINERS, "/opt/himalia")}
ENV = "/himalia/env"


class Plain(Himalia):
    """Without sandboxes, with the two templates that the test needs."""

    level = "none"

    def session(self, template="plain", **body):
        """POST /v1/sessions; the session."""
        return AtLevel.session(self, template, **body)


@pytest.fixture(scope="module", params=LEVELS if ENGINE else ("none", *LEVELS))
def started(request, tmp_path_factory, kernel_python):
    """A gateway whose own environment has traps, and the directory of the programs that its kernels' commands should find."""
    level = request.param
    decoy = tmp_path_factory.mktemp("decoy")
    for name in ("python", "python3", "pip", "f2py"):
        program = decoy / name
        program.write_text("#!/bin/sh\necho decoy\n")
        program.chmod(0o755)
    env = {"PATH": f"{decoy}:{os.environ['PATH']}", "VIRTUAL_ENV": str(decoy), "PYTHONHOME": "", "CONDA_PREFIX": str(decoy)}
    if level == "none":
        directory = tmp_path_factory.mktemp("none")
        file = directory / "himalia.toml"
        file.write_text('[templates.plain]\nkernelspec = "python3"\n[templates.pooled]\nkernelspec = "python3"\n[templates.pooled.pool]\nsize = 1\n')
        own = Plain(directory, "--e2b", "--config", str(file), env=env)
    elif "ordinary" in level:
        place = request.getfixturevalue("ordinary_place")
        directory = place / "programs"
        directory.mkdir()
        os.chown(directory, USER, USER)
        own = AsOrdinaryUser(directory, level, place, "--e2b", env={**env, "HOME": str(directory)})
    else:
        own = AtLevel(tmp_path_factory.mktemp("level"), level, "--e2b", env=env)
    own.decoy, own.home = str(decoy), str(own.directory)
    yield own, PLACES.get(level, ENV) or str(Path(kernel_python).parents[1])
    own.stop()


def work_dir(gateway):
    """The work directory of a sandbox, which a gateway that serves clients of E2B has at their path."""
    return "/session" if gateway.level in CONTAINERS else "/home/user"


def result(gateway, session, code, **more):
    """The text of an execution that succeeds."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    done = reply.json()
    assert (reply.status_code, done["status"]) == (200, "ok"), done
    return done["text"]


def in_cell(command):
    """Code that runs a command as a process of its own."""
    return f"import subprocess; print(subprocess.run(['sh', '-c', {command!r}], capture_output=True, text=True, check=True).stdout)"


# By where a command comes from.
ROUTES = {
    "subprocess": lambda gateway, session, command: result(gateway, session, in_cell(command)),
    "os.system": lambda gateway, session, command: result(gateway, session, f"import os; assert os.system({command!r}) == 0"),
    "!": lambda gateway, session, command: result(gateway, session, f"!{command}"),
    "%%bash": lambda gateway, session, command: result(gateway, session, f"%%bash\n{command}"),
    "language bash": lambda gateway, session, command: result(gateway, session, command, language="bash"),
}


def expected(place):
    """`{command: what it prints, or how that begins}`."""
    libraries = f"{place}/lib/python3"
    return {
        "command -v python": f"{place}/bin/python\n",
        "command -v python3": f"{place}/bin/python3\n",
        "command -v f2py": f"{place}/bin/f2py\n",
        'python -c "import sys; print(sys.executable)"': f"{place}/bin/python\n",
        'python3 -c "import sys; print(sys.prefix)"': f"{place}\n",
        'python3 -c "import pandas; print(pandas.__file__)"': libraries,
        "command -v pip": f"{place}/bin/pip\n",
        "pip --version": f"pip * from {libraries}",
        # `/etc/profile` of the machine decides at level none.
        **({"bash -lc 'command -v python'": f"{place}/bin/python\n"} if place in (ENV, *PLACES.values()) else {}),
    }


def check(found, wanted, where):
    """Compare what a command printed; `*` stands for a word."""
    beginning, _, rest = wanted.partition("*")
    assert found.startswith(beginning) and rest in found, (where, found, wanted)
    assert "decoy" not in found, (where, found)


def look(gateway, session, place, routes=ROUTES):
    """Run the table in a session, by all routes: in one command each, as there are many."""
    table = expected(place)
    script = "; echo ----; ".join(table)
    for route in routes:
        found = ROUTES[route](gateway, session, script).replace("\r", "").split("----\n")
        assert len(found) == len(table), (route, found)
        for text, (command, wanted) in zip(found, table.items(), strict=True):
            check(text, wanted, (gateway.level, route, command))


def test_commands_of_a_session(started):
    gateway, place = started
    session = gateway.session()["id"]
    look(gateway, session, place)
    # The kernel itself.
    assert result(gateway, session, "import sys; print(sys.executable, sys.prefix)") == f"{place}/bin/python3 {place}\n"
    own = result(gateway, session, "import pandas, json; print(pandas.__file__, json.dumps([p for p in sys.path if 'site-packages' in p]))")
    assert own.startswith(f"{place}/lib/python3") and own.count(place) == own.count("site-packages"), own
    gateway.delete_session(session)


def test_nothing_of_the_gateways_environment_shows(started):
    gateway, place = started
    session = gateway.session()["id"]
    variables = json.loads(result(gateway, session, "import json, os; print(json.dumps(dict(os.environ)))"))
    assert "VIRTUAL_ENV" not in variables and "CONDA_PREFIX" not in variables and "PYTHONHOME" not in variables
    assert variables["PYTHONUNBUFFERED"] == "1"
    first, *others = variables["PATH"].split(":")
    assert first == f"{place}/bin"
    if gateway.level != "none":
        assert variables["HOME"] == work_dir(gateway) and others[-1] == f"{work_dir(gateway)}/.packages/bin"
        shown = json.dumps(variables)
        assert gateway.decoy not in shown and gateway.home not in shown and str(Path.home()) not in shown, variables
        in_bash = dict(line.split("=", 1) for line in result(gateway, session, "env", language="bash").splitlines())
        ours_alone = {"_", "OLDPWD", "PWD", "SHLVL"}
        assert {name: value for name, value in in_bash.items() if name not in ours_alone}.items() <= variables.items(), in_bash
    gateway.delete_session(session)


@pytest.mark.parametrize("started", LEVELS, indirect=True)
def test_workers_of_joblib_are_as_many_as_the_limit_of_processors_allows(started):
    gateway, _ = started
    session = gateway.session(limits={"cpu_millis": 500})["id"]
    assert result(gateway, session, "import joblib; print(joblib.cpu_count(), joblib.cpu_count(only_physical_cores=True))") == "1 1\n"
    gateway.delete_session(session)


def test_additional_kernels_branches_pooled_ones_and_those_after_a_restart(started):
    gateway, place = started
    eventually(lambda: any(pool["ready"] for pool in gateway.http.get("v1/pools").json()["pools"]), "a pooled kernel", 120)
    session = gateway.session("pooled")["id"]
    look(gateway, session, place, ("subprocess", "language bash"))
    kernel = gateway.http.post(f"v1/sessions/{session}/kernels", json={"kernelspec": "python3"}).json()["id"]
    with Channels(gateway, kernel) as client:
        assert client.run("import sys; print(sys.executable)").text() == f"{place}/bin/python3\n"
        assert client.run(in_cell("command -v python; command -v pip")).text() == f"{place}/bin/python\n{place}/bin/pip\n\n"
    forked = gateway.http.post(f"v1/sessions/{session}/fork", json={"count": 1, "policy": "report"}).json()
    branch = forked["branches"][0]["session"]["id"]
    look(gateway, branch, place, ("subprocess", "!"))
    gateway.delete_session(branch)
    assert gateway.http.post(f"api/kernels/{session}/restart").status_code == 200
    look(gateway, session, place, ("os.system", "%%bash"))
    gateway.delete_session(session)


def test_commands_by_e2bs_client(started, monkeypatch):
    gateway, place = started
    for name, value in variables(gateway).items():
        monkeypatch.setenv(name, value)
    with Sandbox.create("plain", timeout=200) as sandbox:
        for command, wanted in expected(place).items():
            check(sandbox.commands.run(command).stdout, wanted, (gateway.level, "e2b", command))
        # Each command is a login shell there, which reads what an installer left in the session's own profile.
        sandbox.commands.run("echo 'greet() { echo hello $1; }' >> ~/.profile")
        assert sandbox.commands.run("greet you").stdout == "hello you\n"
        terminal = sandbox.pty.create(PtySize(rows=24, cols=200))
        sandbox.pty.send_stdin(terminal.pid, b"command -v python; exit\n")
        shown = []
        terminal.wait(on_pty=lambda data: shown.append(bytes(data)))
        assert f"{place}/bin/python\r\n" in b"".join(shown).decode(), shown
        sandbox.commands.run("rm ~/.profile")


def test_tracebacks_name_the_environment_by_one_path_and_warnings_by_none(started):
    gateway, place = started
    session = gateway.session()["id"]
    code = "import pandas as pd, traceback\ntry:\n    pd.DataFrame({'a': [1]})['b']\nexcept KeyError:\n    print(traceback.format_exc())"
    named = re.findall('File "(/[^"]*)"', result(gateway, session, code))
    libraries = [path for path in named if "/site-packages/" in path]
    assert libraries and all(path.startswith(f"{place}/lib/") for path in libraries), named
    warned = result(gateway, session, "import numpy as np; np.mean([])")
    assert warned.startswith("numpy/") and "site-packages" not in warned and place not in warned, warned
    gateway.delete_session(session)


@pytest.mark.parametrize("started", LEVELS, indirect=True)
def test_programs_of_a_package_that_the_session_installed(started):
    gateway, _ = started
    session = gateway.session()["id"]
    name = "himalia_probe-1.0-py3-none-any.whl"
    data = base64.b64encode(wheel()).decode()
    result(gateway, session, f"import base64; open('/session/{name}', 'wb').write(base64.b64decode({data!r}))")
    result(gateway, session, f"pip install -q /session/{name}", language="bash")
    for command in ("himalia-probe", "bash -lc himalia-probe", "python -c 'import himalia_probe; print(himalia_probe.ANSWER)'"):
        for route in ("!", "language bash", "subprocess"):
            assert ROUTES[route](gateway, session, command).split() == ["42"], (route, command)
    # It can be removed again, and installed again. What belongs to the environment stays.
    for pip in ("pip", "python -m pip"):
        removed = result(gateway, session, f"{pip} uninstall -y himalia-probe 2>&1", language="bash")
        assert "Successfully uninstalled himalia_probe-1.0" in removed and "WARNING" not in removed, removed
        gone = result(gateway, session, "command -v himalia-probe; python -c 'import himalia_probe' 2>&1; ls -A .packages 2>&1; true", language="bash")
        assert ".packages/bin" not in gone and "No module named 'himalia_probe'" in gone and "dist-info" not in gone, gone
        result(gateway, session, f"pip install -q /session/{name}", language="bash")
    kept = result(gateway, session, "pip uninstall -y pandas 2>&1; python -c 'import pandas; print(pandas.__name__)'", language="bash")
    assert re.search(rf"Not uninstalling pandas at \S+, outside environment {work_dir(gateway)}/.packages", kept), kept
    assert kept.endswith("pandas\n") and "Traceback" not in kept, kept
    assert "Successfully uninstalled" in result(gateway, session, "%pip uninstall -y himalia-probe")
    gateway.delete_session(session)
