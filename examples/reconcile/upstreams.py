"""Three services of a shop on loopback, with made-up data: payments (MCP), the ledger and the tickets (OpenAPI).

Who calls them needs a key, which only the gateway has.
"""

import http.server
import json
import random
import threading
from urllib.parse import parse_qsl, urlsplit

CHARGES = 1200
PAGE = 250
KEY = "key-of-the-shop-1234567890"


def month_of(month):
    """Charges and entries of a month in cents, by id. The same month has the same data. Some of the entries are wrong."""
    made = random.Random(month)
    charges = {f"ch_{month.replace('-', '')}_{number:04}": round(made.lognormvariate(8, 0.9)) for number in range(CHARGES)}
    entries = dict(charges)
    wrong = made.sample(sorted(charges), 21)
    for charge in wrong[:9]:
        del entries[charge]
    for charge in wrong[9:17]:
        entries[charge] += made.choice([-1000, -100, 100, 1000])
    for charge in wrong[17:]:
        entries[f"{charge}_again"] = charges[charge]
    return charges, entries


class Service(http.server.BaseHTTPRequestHandler):
    """What the three have in common: JSON, and a key."""

    protocol_version = "HTTP/1.1"

    def _send(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self):
        return json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")

    def _answer(self, answer):
        if self.headers.get("authorization") == f"Bearer {KEY}":
            self._send(*answer())
        else:
            self._send(401, {"error": "no key"})

    def log_message(self, *_):
        pass


class Payments(Service):
    """MCP over streamable HTTP, with one tool."""

    TOOL = {
        "name": "list_charges",
        "description": "List the charges of a month, a page at a time.",
        "annotations": {"readOnlyHint": True},
        "inputSchema": {
            "type": "object",
            "properties": {
                "month": {"type": "string", "pattern": "^\\d{4}-\\d{2}$", "description": "As 2026-10."},
                "page": {"type": "integer", "minimum": 0, "default": 0},
            },
            "required": ["month"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "charges": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"id": {"type": "string"}, "cents": {"type": "integer"}}},
                },
                "more": {"type": "boolean"},
            },
        },
    }

    def do_POST(self):
        asked = self._body()
        if "id" not in asked:
            self._answer(lambda: (202, None))
            return
        self._answer(lambda: (200, {"jsonrpc": "2.0", "id": asked["id"], **self._reply(asked["method"], asked.get("params", {}))}))

    def do_GET(self):
        self._send(405, {"error": "no stream"})

    def _reply(self, method, params):
        match method:
            case "initialize":
                capabilities = {"tools": {}}
                return {"result": {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": {"name": "payments", "version": "1"}}}
            case "tools/list":
                return {"result": {"tools": [self.TOOL]}}
            case "tools/call":
                return {"result": self._charges(**params["arguments"])}
        return {"error": {"code": -32601, "message": f"there is no method {method}"}}

    def _charges(self, month, page=0):
        charges = sorted(month_of(month)[0].items())[page * PAGE :]
        found = {"charges": [{"id": one, "cents": cents} for one, cents in charges[:PAGE]], "more": len(charges) > PAGE}
        return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}


def described(title, path, method, operation):
    """An OpenAPI description with one operation."""
    answer = {"responses": {"200": {"description": "It.", "content": {"application/json": {"schema": {"type": "object"}}}}}}
    return {"openapi": "3.1.0", "info": {"title": title, "version": "1"}, "servers": [{"url": "/"}], "paths": {path: {method: operation | answer}}}


class Ledger(Service):
    """Entries of a month."""

    DESCRIPTION = described(
        "Ledger",
        "/entries",
        "get",
        {
            "operationId": "list_entries",
            "summary": "All entries of a month, in cents by the id of the charge.",
            "parameters": [{"name": "month", "in": "query", "required": True, "schema": {"type": "string"}}],
        },
    )

    def do_GET(self):
        parts = urlsplit(self.path)
        if parts.path == "/openapi.json":
            self._send(200, self.DESCRIPTION)
        else:
            self._answer(lambda: (200, {"entries": month_of(dict(parse_qsl(parts.query))["month"])[1]}))


class Tickets(Service):
    """Opens tickets, which a person of the shop reads."""

    DESCRIPTION = described(
        "Tickets",
        "/tickets",
        "post",
        {
            "operationId": "open_ticket",
            "summary": "Open a ticket.",
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {"title": {"type": "string"}, "text": {"type": "string"}},
                            "required": ["title", "text"],
                        }
                    }
                },
            },
        },
    )

    def do_GET(self):
        self._send(200, self.DESCRIPTION)

    def do_POST(self):
        ticket = self._body()

        def opened():
            self.server.tickets.append(ticket)
            return 200, {"ticket": f"T-{len(self.server.tickets)}"}

        self._answer(opened)


class Upstreams:
    """The three, each on a free port. A context manager."""

    def __enter__(self):
        self._servers = {}
        for name, service in (("payments", Payments), ("ledger", Ledger), ("tickets", Tickets)):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), service)
            server.daemon_threads = True
            server.tickets = []
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._servers[name] = server
        return self

    def __exit__(self, *_):
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def url(self, name):
        """Where one is."""
        return f"http://127.0.0.1:{self._servers[name].server_port}"

    @property
    def tickets(self):
        """What was opened."""
        return self._servers["tickets"].tickets
