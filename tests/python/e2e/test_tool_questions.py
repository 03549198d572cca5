"""Tool servers of MCP 2026-07-28 that ask a person within a call, the span of a call, and what a model sees of a picture."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from agents import agent, kinds, run, text
from servers import Himalia
from shop import PNG, open_shop
from waiting import eventually

CONFIG = """
private_addresses = ["127.0.0.1"]
[tool_servers.shop]
url = "{url}"
[templates.tools]
kernelspec = "python3"
tools = ["shop"]
tools_write = ["shop.*"]
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def shop():
    """The server of the shop."""
    with open_shop() as server:
        yield server


@pytest.fixture
def gateway(tmp_path, shop, kernel_python):
    """A gateway whose only tool server is the shop, and which records spans."""
    config = tmp_path / "himalia.toml"
    config.write_text(CONFIG.format(url=f"http://127.0.0.1:{shop.server_port}/mcp"))
    gateway = Himalia(tmp_path / "gateway", "--config", str(config), "--otlp-endpoint", "http://127.0.0.1:9")
    yield gateway
    gateway.stop()


@pytest.fixture
def session(gateway):
    """A session that sees the tools."""
    session = f"v1/sessions/{gateway.http.post('v1/sessions', json={'template': 'tools'}).json()['id']}"
    eventually(lambda: gateway.http.get(f"{session}/tools/servers").json()["servers"][0]["ready"], "the server is ready", 60)
    return session


def test_a_question_of_a_tool_is_a_prompt_and_its_answer_goes_back(gateway, session, shop):
    http = gateway.http
    with ThreadPoolExecutor() as pool:
        body = {"tool": "shop.order", "arguments": {}}
        call = pool.submit(http.post, f"{session}/tools/calls", json=body, headers={"traceparent": TRACE}, timeout=90)
        (prompt,) = eventually(lambda: http.get("v1/prompts").json()["prompts"], "it asks", 60)
        assert (prompt["text"], prompt["options"]) == ("The tool shop.order asks: Which size?", ["small", "large"])
        assert http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": "large"}).status_code == 200
        reply = call.result().json()
    assert reply["content"] == [{"size": {"action": "accept", "content": {"size": "large"}}}, "s"], reply
    first, second = shop.metas
    assert first["traceparent"] == second["traceparent"], (first, second)
    # The gateway continues the trace of its client.
    assert first["traceparent"].split("-")[1] == TRACE.split("-")[1]


def test_a_model_sees_the_picture_of_a_tool(gateway, session):
    async def call():
        async with agent(gateway) as client:
            arguments = {"session": session.rpartition("/")[2], "tool": "shop.picture"}
            shown = await client.call_tool("call_tool", arguments)
            assert kinds(shown) == ["text", "image"] and shown.content[1].data == PNG
            assert text(shown) == "drawn\n[image 1: image/png, 68 bytes]\n"

    run(call)
