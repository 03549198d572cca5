"""Tool servers of MCP 2026-07-28 that ask a person within a call, the span of a call, and what a model sees of a picture."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agents import agent, kinds, run, text
from servers import Himalia
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
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
FORM = {"type": "object", "properties": {"size": {"type": "string", "enum": ["small", "large"]}}, "required": ["size"]}


class Shop(BaseHTTPRequestHandler):
    """A server with one tool, which wants to know a size."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        own = {"resultType": "complete", **self.result(message["method"], message.get("params", {}))}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": own}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def result(self, method, params):
        """The members of a result."""
        if method == "server/discover":
            info = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
            return {"ttlMs": 0, "cacheScope": "private", **info}
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("order", "picture")]
            return {"tools": tools, "ttlMs": 0, "cacheScope": "private"}
        if method != "tools/call":
            return {}
        self.server.metas.append(params["_meta"])
        assert self.headers["traceparent"] == params["_meta"]["traceparent"]
        if params["name"] == "picture":
            return {"content": [{"type": "text", "text": "drawn"}, {"type": "image", "mimeType": "image/png", "data": PNG}]}
        if "inputResponses" not in params:
            question = {"method": "elicitation/create", "params": {"message": "Which size?", "requestedSchema": FORM}}
            return {"resultType": "input_required", "inputRequests": {"size": question}, "requestState": "s"}
        text = json.dumps([params["inputResponses"], params["requestState"]])
        return {"content": [{"type": "text", "text": text}]}

    def log_message(self, *_):
        pass


@pytest.fixture
def shop():
    """The server of the shop."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.metas = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


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


def test_a_call_from_code_is_below_the_span_of_the_code(gateway, session, shop):
    code = "import himalia\nawait himalia.call('shop.picture')"
    body = {"code": code, "wait_s": 60}
    ran = gateway.http.post(f"{session}/executions", json=body, headers={"traceparent": TRACE}, timeout=90).json()
    assert ran["status"] == "ok", ran
    (meta,) = shop.metas
    version, trace, span, flags = meta["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE.split("-")[1], "01") and span != TRACE.split("-")[2]


def test_a_model_sees_the_picture_of_a_tool(gateway, session):
    async def call():
        async with agent(gateway) as client:
            arguments = {"session": session.rpartition("/")[2], "tool": "shop.picture"}
            shown = await client.call_tool("call_tool", arguments)
            assert kinds(shown) == ["text", "image"] and shown.content[1].data == PNG
            assert text(shown) == "drawn\n[image 1: image/png, 68 bytes]\n"

    run(call)
