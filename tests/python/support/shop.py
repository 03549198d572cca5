"""A tool server of MCP 2026-07-28: one tool asks a person for a size, another one has a picture."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


@contextlib.contextmanager
def open_shop():
    """The server; `metas` has the `_meta` of its calls."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.metas = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
