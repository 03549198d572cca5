"""An unmodified SDK of OpenAI in a session without a network, on the door to models."""

import os
import subprocess

import pytest
from models import Model
from servers import Himalia

PYTHON = os.environ["HIMALIA_AGENTS_PYTHON"]
CONFIG = """
[mounts.sdk]
directory = "{packages}"

[models.small]
url = "{url}/v1"

[templates.sdk]
kernelspec = "python3"
isolation = "namespaces"
memory = "1GiB"
mounts = ["sdk"]
models = ["small"]
model_calls = 20
"""

CODE = """
import sys
sys.path.append("/mnt/sdk")
import openai
where = {"base_url": "http://himalia.internal/llm/v1", "api_key": "any"}
client, asked = openai.OpenAI(**where), openai.AsyncOpenAI(**where)
messages = lambda text: [{"role": "user", "content": text}]

print(client.chat.completions.create(model="small", messages=messages("echo sync")).choices[0].message.content)
print((await asked.chat.completions.create(model="small", messages=messages("echo async"))).choices[0].message.content)
print([chunk.choices[0].delta.content for chunk in client.chat.completions.create(model="small", messages=messages("x"), stream=True)])
stream = await asked.chat.completions.create(model="small", messages=messages("x"), stream=True, stream_options={"include_usage": True})
print([chunk.usage.total_tokens if chunk.usage else chunk.choices[0].delta.content async for chunk in stream])
async with asked.chat.completions.stream(model="small", messages=messages("x")) as events:
    print([event.delta async for event in events if event.type == "content.delta"])
print([model.id for model in client.models.list()], client.models.retrieve("small").id)
print(client.embeddings.create(model="small", input=["a", "bcd"], encoding_format="float").data[1].embedding)
print(client.chat.completions.create(model="small", messages=messages("busy 1")).choices[0].message.content)
for kind, call in (
    (openai.NotFoundError, lambda: client.chat.completions.create(model="other", messages=messages("x"))),
    (openai.BadRequestError, lambda: client.chat.completions.create(model="small", messages=messages("x"), n=0)),
):
    try:
        call()
    except kind as error:
        print(error.status_code, error.code, error.param)
try:
    for n in range(100):
        client.chat.completions.create(model="small", messages=messages("echo x"))
except openai.RateLimitError as error:
    print(n, error.status_code, error.code, error.param, error.body["allowed"])
"""


class InSandboxes(Himalia):
    """A gateway whose template says where its sessions run."""

    isolation = ()


@pytest.fixture
def gateway(tmp_path):
    packages = subprocess.run([PYTHON, "-c", "import openai; print(*openai.__path__)"], check=True, capture_output=True, text=True)
    model = Model()
    file = tmp_path / "himalia.toml"
    file.write_text(CONFIG.format(packages=os.path.dirname(packages.stdout.strip()), url=model.url))
    server = InSandboxes(tmp_path / "gateway", "--config", str(file))
    server.model = model
    yield server
    server.stop()
    model.close()


def test_the_sdk_works_without_a_key_and_without_a_network(gateway):
    session = gateway.http.post("v1/sessions", json={"template": "sdk"}).json()["id"]
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": CODE}, params={"wait_s": 100})
    result = reply.json()
    assert result["error"] is None, result["error"]
    assert result["text"].splitlines() == [
        "sync",
        "async",
        "['one ', 'two']",
        "['one ', 'two', 7]",
        "['one ', 'two']",
        "['small'] small",
        "[3.0, 0.5]",
        "busy",
        "404 model_not_found model",
        "400 bad_request n",
        # Eight calls before: the one that was sent again counts twice.
        "12 429 model_limit model_calls 20.0",
    ], result["text"]
    # The refused ones were not sent again: a header says so.
    assert result["usage"]["model_calls_refused"] == 3, result["usage"]
    gateway.http.delete(f"v1/sessions/{session}")
