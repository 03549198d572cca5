"""What a host of MCP gives to a model of a result with text and an image: each of them, once."""

import json
import os
import subprocess

import pytest
from servers import Himalia

PYTHON = os.environ["HIMALIA_AGENTS_PYTHON"]
PLOT = (
    "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\n"
    "import matplotlib.pyplot as plt\nprint('drawn')\nplt.plot([1, 2]); plt.show()"
)
# The part of the OpenAI Agents SDK that makes the output of a tool in the request to a model.
HOST = """
import asyncio, json, os, sys
from agents import RunContextWrapper
from agents.mcp import MCPServerStreamableHttp, MCPUtil

async def main(arguments):
    server = {"url": os.environ["HIMALIA_URL"] + "mcp", "headers": {"Authorization": "Bearer " + os.environ["HIMALIA_TOKEN"]}, "timeout": 60}
    async with MCPServerStreamableHttp(server, client_session_timeout_seconds=120) as himalia:
        tool = next(tool for tool in await himalia.list_tools() if tool.name == "execute")
        print(json.dumps(await MCPUtil.invoke_mcp_tool(himalia, tool, RunContextWrapper(None), arguments)))

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def gateway(tmp_path):
    server = Himalia(tmp_path)
    yield server
    server.stop()


def test_a_plot_reaches_the_model_of_the_openai_agents_sdk_once(gateway):
    arguments = {"session": gateway.start_session(), "code": PLOT}
    env = {"PATH": os.environ["PATH"], "HIMALIA_URL": gateway.url, "HIMALIA_TOKEN": gateway.token}
    done = subprocess.run(
        [PYTHON, "-c", HOST, json.dumps(arguments)], env=env, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    text, image = json.loads(done.stdout)
    assert text["type"] == "text" and text["text"].startswith("drawn\n") and len(text["text"]) < 1500, text
    assert image["type"] == "image" and image["image_url"].startswith("data:image/png;base64,"), image
