"""`himalia backup` of a gateway that runs, and `himalia restore`: what was there is there, and the kernels of the original stay its own."""

import os
import shutil
import subprocess
import tarfile

import pytest
from servers import Himalia
from waiting import eventually


def himalia(*args):
    command = [os.environ["HIMALIA_BIN"], *map(str, args)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def gateway(tmp_path, kernel_python):
    own = Himalia(tmp_path / "gateway")
    yield own
    own.stop()


def run(gateway, session, code, **more):
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more})
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def test_a_backup_of_a_running_gateway_is_a_gateway_again(gateway, tmp_path):
    data = gateway.directory / "data"
    made = gateway.http.post("v1/tokens", json={"caller": "ci", "scope": "read"}).json()
    ended = gateway.start_session()
    finished = run(gateway, ended, "print('from an ended session')")
    gateway.delete_session(ended)
    session = gateway.http.put("v1/sessions/analysis", json={}).json()["id"]
    before = run(gateway, session, "x = 41\nprint('before')")
    busy = run(gateway, session, "import time\nfor n in range(100000):\n    print(n, flush=True)\n    time.sleep(0.001)", wait_s=0)
    output = gateway.http.get(f"v1/executions/{busy['id']}")
    eventually(lambda: gateway.http.get(f"v1/executions/{busy['id']}").json()["status"] == "running", lambda: output.text)

    file = tmp_path / "backup.tar"
    done = himalia("backup", "--output", file, "--data-dir", data)
    assert done.returncode == 0, done.stderr
    assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert himalia("backup", "--output", file, "--data-dir", data).returncode == 1, "nothing is overwritten"
    assert himalia("backup", "--output", data / "x.tar", "--data-dir", data).returncode == 1, "not into itself"
    with tarfile.open(file) as tar:
        names = tar.getnames()
    assert names[0] == "himalia.db" and names[-1] == "manifest.json"
    assert not {"gateway.json", "lock", "run-dir", "himalia.db-wal"} & set(names), names

    # What is damaged is not restored, nor is anything of it.
    bad = tmp_path / "bad.tar"
    shutil.copyfile(file, bad)
    with bad.open("r+b") as damaged:
        damaged.seek(4096)
        damaged.write(b"\xff" * 16)
    target = tmp_path / "restored" / "data"
    target.parent.mkdir()
    done = himalia("restore", bad, "--data-dir", target)
    assert done.returncode == 1 and "himalia.db is not as it was" in done.stderr, done.stderr
    bad.write_bytes(file.read_bytes()[:-4096])
    done = himalia("restore", bad, "--data-dir", target)
    assert done.returncode == 1 and "not a complete backup" in done.stderr, done.stderr
    assert list(target.parent.iterdir()) == []
    done = himalia("restore", file, "--data-dir", data)
    assert done.returncode == 1 and "is not empty" in done.stderr

    done = himalia("restore", file, "--data-dir", target)
    assert done.returncode == 0, done.stderr
    assert "whose sandboxes count as lost" in done.stdout
    copy = Himalia(target.parent)
    try:
        again = copy.http.get(f"v1/executions/{finished['id']}").json()
        assert again["status"] == "ok" and "from an ended session" in str(again), again
        assert copy.http.get(f"v1/executions/{before['id']}").json()["status"] == "ok"
        assert [one["id"] for one in copy.http.get("v1/tokens").json()["tokens"]] == [made["id"]]
        # Its kernel is the original's. The copy makes another one, in which the variables are gone.
        eventually(
            lambda: copy.http.get("v1/sessions/analysis").json()["state"] != "unknown", lambda: copy.log.read_text()[-2000:]
        )
        ran = run(copy, "analysis", "'x' in globals()")
        assert ran["status"] == "ok" and ran["outputs"][0]["data"]["text/plain"] == "False", ran
        assert copy.http.get(f"v1/executions/{busy['id']}").json()["status"] != "running"
        # The original continues, with its variables.
        assert gateway.http.get(f"v1/executions/{busy['id']}").json()["status"] == "running"
        gateway.http.post(f"v1/sessions/{session}/interrupt")
        assert run(gateway, session, "x + 1")["outputs"][0]["data"]["text/plain"] == "42"
    finally:
        copy.stop()
    assert run(gateway, session, "x + 2")["outputs"][0]["data"]["text/plain"] == "43"


def test_a_backup_of_a_stopped_gateway(gateway, tmp_path):
    session = gateway.start_session()
    assert run(gateway, session, "1")["status"] == "ok"
    gateway.kill()
    file = tmp_path / "backup.tar"
    done = himalia("backup", "--output", file, "--data-dir", gateway.directory / "data")
    assert done.returncode == 0, done.stderr
    done = himalia("backup", "--output", tmp_path / "none.tar", "--data-dir", tmp_path)
    assert done.returncode == 1 and "is not the data directory of a gateway" in done.stderr
    assert not list(tmp_path.glob("none*"))
    gateway.start()
    assert run(gateway, session, "2")["status"] == "ok"
