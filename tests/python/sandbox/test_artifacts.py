"""Files that code writes for keeping are listed in its result and can be read after the session has ended."""

import hashlib
import sys
from pathlib import Path

import pytest
from agents import agent, whole
from agents import run as agent_run
from levels import LEVELS, TEMPLATE, AtLevel, place
from waiting import eventually

sys.path.insert(0, str(Path(__file__).parents[3] / "clients" / "python"))
from himalia import Execution  # noqa: E402

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if level in ("namespaces", "container")]


@pytest.fixture(scope="module", params=AT)
def gateway(request, tmp_path_factory, kernel_python):
    """One that keeps logs."""
    directory = tmp_path_factory.mktemp("artifacts")
    # What the gateway has not taken yet is in the directory of the session, beside its files.
    roomy = TEMPLATE.format(name="roomy", place=place(request.param), disk="128MiB", more="")
    made = AtLevel(directory, request.param, keeps=True, extra=roomy)
    yield made
    made.stop()


def session(gateway, template="plain"):
    """The id of a new session."""
    reply = gateway.http.post("v1/sessions", json={"template": template}, timeout=120)
    assert reply.status_code == 201, reply.text
    return reply.json()["id"]


def run(gateway, session, code, **more):
    """The result of an execution."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, params={"wait_s": 60}, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_files_are_listed_and_outlive_the_session(gateway):
    made = session(gateway)
    code = """
import os
os.makedirs("artifacts/deep")
open("artifacts/deep/a.csv", "w").write("1,2")
open("/tmp/artifacts/plot.png", "wb").write(b"png" * 1000)
open("other.txt", "w").write("stays")
print("done")
"""
    result = run(gateway, made, code)
    assert result["error"] is None and result["text"] == "done\n", result
    shown = {one["name"]: (one["media_type"], one["bytes"]) for one in result["artifacts"]}
    assert shown == {"deep/a.csv": ("text/csv", 3), "plot.png": ("image/png", 3000)}, result
    assert "artifacts_omitted" not in result
    assert [(one.name, one.bytes) for one in Execution.of(result).artifacts] == [("deep/a.csv", 3), ("plot.png", 3000)]
    # Each writing once: what did not change is no file of the next execution.
    assert "artifacts" not in run(gateway, made, "print(1)")
    again = run(gateway, made, "open('/tmp/artifacts/plot.png', 'wb').write(b'other')")
    assert [one["bytes"] for one in again["artifacts"]] == [5], again
    # Bash writes them, too, and a failing execution keeps its files.
    bash = run(gateway, made, "echo hello > /tmp/artifacts/b.txt; exit 3", language="bash")
    assert [one["name"] for one in bash["artifacts"]] == ["b.txt"], bash
    assert gateway.http.delete(f"v1/sessions/{made}").status_code == 204
    kept = gateway.http.get(f"v1/executions/{result['id']}").json()["artifacts"]
    assert kept == result["artifacts"]
    (plot,) = [one for one in kept if one["name"] == "plot.png"]
    reply = gateway.http.get(f"v1/artifacts/{plot['artifact']}")
    assert reply.content == b"png" * 1000 and reply.headers["content-type"] == "image/png"
    assert plot["artifact"] == "sha256:" + hashlib.sha256(reply.content).hexdigest()
    # As after a restart, when nothing is remembered.
    gateway.kill()
    gateway.start()
    assert gateway.http.get(f"v1/executions/{result['id']}").json()["artifacts"] == result["artifacts"]
    assert gateway.http.get(f"v1/artifacts/{plot['artifact']}").content == b"png" * 1000


def test_what_is_too_large_or_too_many_is_said(gateway):
    made = session(gateway)
    code = """
import os
with open("/tmp/artifacts/large.bin", "wb") as file:
    file.truncate(9 << 20)
for n in range(33):
    open(f"/tmp/artifacts/n{n:02}.txt", "w").write(str(n))
os.symlink("/etc/passwd", "/tmp/artifacts/passwd")
os.mkfifo("/tmp/artifacts/pipe")
"""
    result = run(gateway, made, code)
    assert result["error"] is None, result
    assert len(result["artifacts"]) == 32, result["artifacts"]
    omitted = {one["name"]: one["reason"] for one in result["artifacts_omitted"]["files"]}
    assert omitted == {"large.bin": "too_large", "n32.txt": "too_many"}, result
    assert gateway.http.delete(f"v1/sessions/{made}").status_code == 204


def test_files_of_the_largest_sizes_are_kept_also_over_mcp_and_in_a_branch(gateway):
    made = session(gateway, "roomy")
    code = """
import os
os.makedirs("artifacts", exist_ok=True)
for n in range(5):
    with open(f"artifacts/{n}.bin", "wb") as file:
        file.write(bytes([n]) * (8 << 20))
"""

    async def execute():
        async with agent(gateway) as client:
            return await client.call_tool("execute", {"session": made, "code": code})

    reply = agent_run(execute)
    kept = whole(reply)["artifacts"]
    assert [one["bytes"] for one in kept] == [8 << 20] * 4, whole(reply)
    text = reply.content[0].text
    assert f"[artifact 0.bin, application/octet-stream, {8 << 20} bytes: himalia://artifacts/{kept[0]['artifact'][7:]}]" in text, text
    assert f"[not kept as artifacts: 4.bin (too_many, {8 << 20} bytes)]" in text, text
    assert gateway.http.get(f"v1/artifacts/{kept[3]['artifact'][7:]}").content == bytes([3]) * (8 << 20)
    # A branch has the files, and keeps what it writes itself.
    run(gateway, made, "import shutil; shutil.rmtree('artifacts'); os.makedirs('artifacts/of'); open('artifacts/of/parent.txt', 'w').write('p')")
    reply = gateway.http.post(f"v1/sessions/{made}/fork", json={"count": 1, "policy": "report"}, timeout=120)
    assert reply.status_code == 201, reply.text
    branch = reply.json()["branches"][0]["session"]["id"]
    result = run(gateway, branch, "print(os.getcwd()); open('artifacts/of/branch.txt', 'w').write('b')")
    assert [one["name"] for one in result["artifacts"]] == ["of/branch.txt"], result
    assert "artifacts" not in run(gateway, made, "2")
    for one in (branch, made):
        assert gateway.http.delete(f"v1/sessions/{one}").status_code == 204


def test_a_link_leads_nowhere(gateway):
    made = session(gateway)
    code = """
import os
os.makedirs("other")
open("other/a.txt", "w").write("a")
os.symlink("other", "artifacts")
os.symlink("/etc/passwd", "/tmp/artifacts/passwd")
os.symlink("/etc", "/tmp/artifacts/etc")
"""
    result = run(gateway, made, code)
    assert result["error"] is None and "artifacts" not in result and "artifacts_omitted" not in result, result
    assert gateway.http.delete(f"v1/sessions/{made}").status_code == 204


def test_a_skill_returns_files(gateway):
    main = "def main(name):\n    open('/tmp/artifacts/report.md', 'w').write('# ' + name)\n    return name\n"
    manifest = {"name": "report", "version": "1.0.0", "kind": "code", "description": "A report.", "inputs": {"type": "object"}, "outputs": True}
    assert gateway.http.post("v1/skills", json={"manifest": manifest, "files": {"main.py": {"text": main}}}).status_code == 201
    done = gateway.http.post("v1/skills/report/runs", json={"inputs": {"name": "Ada"}, "template": "plain"}, timeout=120).json()
    (file,) = done["result"]["artifacts"]
    ended = lambda: gateway.http.get(f"v1/sessions/{done['session']}").json()["ended"]  # noqa: E731
    eventually(ended, "the session of the run has ended", 60)
    assert gateway.http.get(f"v1/artifacts/{file['artifact']}").text == "# Ada"
