"""The services that the examples of the REST reference need: an API whose operations are tools, an authorization server, a receiver of callbacks."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}, "amount": {"type": "number"}}}
NEW_ORDER = {"type": "object", "properties": {"customer": {"type": "string"}, "amount": {"type": "number"}}, "required": ["customer", "amount"]}
ORDERS = [{"id": 1, "customer": "ada", "amount": 12.5}, {"id": 2, "customer": "bob", "amount": 40}]
API = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "paths": {
        "/orders": {
            "get": {
                "operationId": "list_orders",
                "summary": "List open orders",
                "parameters": [{"name": "customer", "in": "query", "schema": {"type": "string"}}],
                "responses": {"200": {"description": "Orders", "content": {"application/json": {"schema": {"type": "array", "items": ORDER}}}}},
            },
            "post": {
                "operationId": "create_order",
                "summary": "Create an order",
                "requestBody": {"required": True, "content": {"application/json": {"schema": NEW_ORDER}}},
                "responses": {"200": {"description": "The order", "content": {"application/json": {"schema": ORDER}}}},
            },
        }
    },
}


class Services:
    """All of them on one port of loopback."""

    def __init__(self):
        services = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, value, status=200):
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_GET(self):
                if self.path == "/openapi.json":
                    self.answer(API | {"servers": [{"url": services.url}]})
                else:
                    self.answer(ORDERS)

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path == "/token":
                    self.answer({"access_token": "access-token", "refresh_token": "refresh-token", "token_type": "Bearer", "expires_in": 3600, "scope": "read"})
                elif self.path == "/orders":
                    self.answer({"id": 3, **json.loads(body)})
                else:
                    self.answer({})

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def configuration(self):
        """The configuration of a gateway that uses them."""
        return f"""\
private_addresses = ["127.0.0.1:{self.port}"]
callback_addresses = ["127.0.0.1:{self.port}"]

[tool_servers.orders]
openapi = "{self.url}/openapi.json"
description = "Orders of the shop."

[templates.agent]
kernelspec = "python3"
memory = "1GiB"
tools = ["orders"]

[templates.pooled]
kernelspec = "python3"
memory = "512MiB"

[templates.pooled.pool]
size = 1
"""

    def close(self):
        """Ends them."""
        self.server.shutdown()
        self.server.server_close()
