"""Tool servers of MCP 2026-07-28 that ask a person within a call, and the span of a call."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
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
            return {"tools": [{"name": "order", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "private"}
        if method != "tools/call":
            return {}
        self.server.metas.append(params["_meta"])
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


def test_a_question_of_a_tool_is_a_prompt_and_its_answer_goes_back(tmp_path, shop, kernel_python):
    config = tmp_path / "himalia.toml"
    config.write_text(CONFIG.format(url=f"http://127.0.0.1:{shop.server_port}/mcp"))
    gateway = Himalia(tmp_path / "gateway", "--config", str(config), "--otlp-endpoint", "http://127.0.0.1:9")
    try:
        http = gateway.http
        session = f"v1/sessions/{http.post('v1/sessions', json={'template': 'tools'}).json()['id']}"
        eventually(lambda: http.get(f"{session}/tools/servers").json()["servers"][0]["ready"], "the server is ready", 60)
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
    finally:
        gateway.stop()
