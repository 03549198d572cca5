"""Clients of Azure's dynamic sessions and of OpenAI's containers, unmodified, on a gateway that serves them."""

import os
import subprocess

import pytest
from servers import Himalia

PYTHON = os.environ["HIMALIA_AGENTS_PYTHON"]

AZURE = """
import io, json, os
from langchain_azure_dynamic_sessions import SessionsBashTool, SessionsPythonREPLTool

where = {"pool_management_endpoint": os.environ["HIMALIA_URL"] + "azure/python3/", "access_token_provider": lambda: os.environ["HIMALIA_TOKEN"]}
python = SessionsPythonREPLTool(**where)
assert json.loads(python.invoke("x = 6\\nprint('a')\\nx * 7")) == {"result": 42, "stdout": "a\\n", "stderr": ""}
assert python.execute("x")["result"] == 6
assert "ZeroDivisionError" in python.execute("1 / 0")["stderr"]
sent = python.upload_file(data=io.BytesIO(b"one,two"), remote_file_path="in.csv")
assert (sent.filename, sent.size_in_bytes, sent.full_path) == ("in.csv", 7, "/mnt/data/in.csv")
assert python.execute("open('in.csv').read().split(',')[1]")["result"] == "two"
assert ("in.csv", 7) in [(one.filename, one.size_in_bytes) for one in python.list_files()]
assert python.download_file(remote_file_path="in.csv").read() == b"one,two"

bash = SessionsBashTool(**where)
assert json.loads(bash.invoke("echo hello; exit 3")) == {"stdout": "hello\\n", "stderr": "", "exitCode": 3}
assert bash.upload_file(data=io.BytesIO(b"x"), remote_file_path="b").size_in_bytes == 1
assert "b" in [one.filename for one in bash.list_files()] and bash.download_file(remote_file_path="b").read() == b"x"
for tool in (python, bash):
    tool._delete_session_sync(tool.session_id)
"""

OPENAI = """
import os
import openai

client = openai.OpenAI(base_url=os.environ["HIMALIA_URL"] + "openai/v1", api_key=os.environ["HIMALIA_TOKEN"])
made = client.containers.create(name="one", expires_after={"anchor": "last_active_at", "minutes": 5})
assert (made.name, made.status, made.expires_after.minutes, made.network_policy.type) == ("one", "running", 5, "disabled")
assert client.containers.retrieve(made.id) == made or client.containers.retrieve(made.id).id == made.id
others = [client.containers.create(name=name).id for name in ("two", "three")]
assert [one.id for one in client.containers.list(limit=1, order="asc")] == [made.id, *others]
file = client.containers.files.create(made.id, file=("a.txt", b"content"))
assert (file.bytes, file.path, file.container_id) == (7, "/mnt/data/a.txt", made.id)
assert client.containers.files.content.retrieve(file.id, container_id=made.id).read() == b"content"
assert file.id in [one.id for one in client.containers.files.list(made.id)]
assert client.containers.files.retrieve(file.id, container_id=made.id).path == file.path
client.containers.files.delete(file.id, container_id=made.id)
for one in (made.id, *others):
    client.containers.delete(one)
for refused, kind in (
    (lambda: client.containers.retrieve(made.id), openai.NotFoundError),
    (lambda: client.containers.create(name="a", memory_limit="2g"), openai.BadRequestError),
    (lambda: client.with_options(max_retries=0).responses.create(model="m", input="x"), openai.InternalServerError),
    (lambda: client.with_options(api_key="wrong").containers.list(), openai.AuthenticationError),
):
    try:
        refused()
    except kind:
        continue
    raise AssertionError(kind)
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    server = Himalia(tmp_path_factory.mktemp("facades"), "--azure-sessions", "--openai-containers")
    yield server
    server.stop()


@pytest.mark.parametrize("script", [AZURE, OPENAI], ids=["azure", "openai"])
def test_an_unmodified_client_works(script, gateway, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HIMALIA_URL": gateway.url, "HIMALIA_TOKEN": gateway.token}
    done = subprocess.run([PYTHON, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
