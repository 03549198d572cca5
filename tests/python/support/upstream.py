"""Servers of tools: two of MCP, of the packages of Python and of npm, and one that an OpenAPI description describes."""

import http.server
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from ports import free_ports
from waiting import eventually

DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Weather", "version": "1"},
    "paths": {
        "/forecast/{city}": {
            "get": {
                "operationId": "get_forecast",
                "summary": "The weather of a city.",
                "parameters": [
                    {"name": "city", "in": "path", "required": True, "schema": {"type": "string"}},
                    {"name": "days", "in": "query", "schema": {"type": "integer", "maximum": 7}},
                ],
                "responses": {
                    "200": {
                        "description": "It.",
                        "content": {
                            "application/json": {"schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {}}}}
                        },
                    }
                },
            }
        }
    },
}


class Orders:
    """`orders_server.py` as a process."""

    def __init__(self, directory):
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.record = Path(directory) / "created"
        self.start()

    def start(self, *changed):
        """Starts it, at its port; returns when it listens."""
        program = Path(__file__).with_name("orders_server.py")
        self.process = subprocess.Popen(
            [sys.executable, program, str(self.port), str(self.record), *changed],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._listens, "the server of orders listens", 60)

    def _listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def created(self):
        """How many orders were created."""
        return len(self.record.read_text().splitlines()) if self.record.exists() else 0

    def close(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()


class Stock:
    """`stock-server.js` as a process. Its sessions are in its memory."""

    PROGRAM = Path(__file__).resolve().parents[2] / "js" / "lib" / "stock-server.js"

    def __init__(self):
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self):
        """Starts it, at its port; returns when it listens."""
        self.process = subprocess.Popen(
            ["node", self.PROGRAM, str(self.port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout.readline().strip() == self.url, "it has started (tests/js/node_modules)"

    def close(self):
        """Ends it."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Weather:
    """A server with an OpenAPI description."""

    def __init__(self):
        self.requests = []
        weather = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                weather.requests.append(self.path)
                parts = urlsplit(self.path)
                if parts.path == "/openapi.json":
                    answer = DESCRIPTION | {"servers": [{"url": weather.url}]}
                else:
                    answer = {"city": parts.path.rpartition("/")[2], **dict(parse_qsl(parts.query))}
                text = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()
