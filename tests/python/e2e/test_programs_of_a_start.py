"""Which programs and directories of the host a start uses: never what a request names."""

import os
import shutil
from pathlib import Path

import pytest
from channels import Channels
from processes import children, command_line, environment
from servers import Himalia
from waiting import eventually

KERNELSPECS = Path(__file__).resolve().parents[3] / "kernelspecs"


class Sandboxed(Himalia):
    """A gateway whose kernels run in namespaces, with the kernelspec of this repository, whose program is a bare `python3`."""

    isolation = ()

    def __init__(self, directory, python):
        directory.mkdir(parents=True)
        file = directory / "himalia.toml"
        file.write_text('[templates.py]\nkernelspec = "python3"\nprovisioner = "local"\nisolation = "namespaces"\nfiles = "session"\npreload = ["numpy", "matplotlib.pyplot"]\n')
        options = ("--config", str(file), "--kernelspec-dir", str(KERNELSPECS), "--only-these-kernelspecs")
        super().__init__(directory, *options, env={"PATH": f"{Path(python).parent}:/usr/bin:/bin"})

    def session(self, **body):
        """POST /v1/sessions; the id."""
        reply = self.http.post("v1/sessions", json={"template": "py", **body})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway for this test alone."""
    own = Sandboxed(tmp_path / "gateway", kernel_python)
    yield own
    own.stop()


def test_a_sessions_file_is_never_run_outside_of_sandboxes(gateway, tmp_path):
    ran = tmp_path / "ran"
    first = gateway.session()
    program = f"#!/bin/sh\ntouch {ran}\n"
    assert gateway.http.put(f"v1/sessions/{first}/files/python3", content=program).status_code in (200, 201, 204)
    with Channels(gateway, first) as client:
        client.run("import os; os.chmod('python3', 0o755)")
    (files,) = (gateway.directory / "data" / "files").iterdir()
    assert os.access(files / "python3", os.X_OK)
    second = gateway.session(env={"PATH": str(files)})
    with Channels(gateway, second) as client:
        assert client.run("import os; print(os.environ['PATH'])").text() == f"{files}\n"
    assert not ran.exists()
    assert str(files) not in gateway.log.read_text()
    gateway.delete_session(first)
    gateway.delete_session(second)


def test_a_request_does_not_choose_which_directory_a_sandbox_sees(gateway, tmp_path, kernel_python):
    """An environment of another user, which the gateway can read."""
    other = tmp_path / "other"
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "python3").symlink_to(Path(kernel_python).resolve())
    version = next((Path(kernel_python).parents[1] / "lib").iterdir())
    (other / "lib" / version.name).mkdir(parents=True)
    (other / "lib" / version.name / "site-packages").symlink_to(version / "site-packages")
    shutil.copy(Path(kernel_python).parents[1] / "pyvenv.cfg", other)
    (other / "secret.txt").write_text("of another project")
    session = gateway.session(env={"PATH": f"{other / 'bin'}:/usr/bin"})
    with Channels(gateway, session) as client:
        assert client.run(f"open({str(other / 'secret.txt')!r})").content["ename"] == "FileNotFoundError"
    gateway.delete_session(session)


def test_gateway_and_zygote_import_nothing_of_a_session(gateway, tmp_path):
    """Files that a start would import if it looked, in a session whose files outlive the gateway that made them."""
    host_had_it = Path("/session").exists()
    ran = tmp_path / "ran"
    first = gateway.session()
    (files,) = (gateway.directory / "data" / "files").iterdir()
    places = [f"{name}.py" for name in ("himalia_kernel", "sitecustomize", "usercustomize", "json", "numpy", "ipykernel", "matplotlib")]
    places += [".ipython/profile_default/startup/mine.py", ".ipython/profile_default/ipython_config.py", ".config/matplotlib/matplotlibrc"]
    places += [".local/lib/python3.11/site-packages/mine.pth", ".local/lib/python3.11/site-packages/usercustomize.py"]
    with Channels(gateway, first) as client:
        line = f"import os; open({str(ran)!r}, 'w').write(os.getcwd())\n"
        write = "os.makedirs(os.path.dirname('./' + place), exist_ok=True); open(place, 'w').write(line)"
        client.run(f"import os\nline = {line!r}\nfor place in {places!r}: {write}")
    assert all((files / place).is_file() for place in places)
    gateway.kill()
    gateway.start()

    def by_zygote():
        made = gateway.http.post("v1/sessions", json={"template": "py"}).json()
        gateway.delete_session(made["id"])
        return made["started_by"] == "zygote"

    eventually(by_zygote, "a session is the fork of a zygote", 100)
    (zygote,) = [pid for pid in children(gateway.process.pid) if "himalia_kernel.zygote" in command_line(pid)]
    theirs = environment(zygote)
    home = Path(theirs["HOME"])
    # It was below the run directory, and is needed no more.
    assert home.parent.name == "zygotes" and not home.exists()
    assert all(Path(theirs[name]).is_relative_to(home) for name in ("IPYTHONDIR", "MPLCONFIGDIR"))
    named = [value for name, value in theirs.items() if name != "HIMALIA_HOME_OF_KERNELS"]
    assert not [value for value in named if value.startswith("/session") or str(files) in value]
    assert os.readlink(f"/proc/{zygote}/cwd") == "/"
    assert not ran.exists()
    assert Path("/session").exists() == host_had_it
    gateway.delete_session(first)
