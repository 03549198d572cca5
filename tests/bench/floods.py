"""The floods of tenant B in `make bench-fairness`, and the gateway's settings and B's objects that they need.

A flood is a function of one request, which returns its HTTP status, and a number of threads that call it again and again.
"""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import socket
import sys
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "support"))
from models import Model
from upstream import Weather

TOKENS = {"a": "the-token-of-tenant-a-01", "b": "the-token-of-tenant-b-02"}
PRINT = "for _ in range(400): print('x' * 50_000)"
DISPLAY = "from IPython.display import display\nfor n in range(4): display({'application/x-bytes': 'x' * (6_000_000 + n)}, raw=True)"
CELLS = 300
"""Executions of B, so that its lists are long."""
OPEN = {"type": "object"}
DEEP = {
    "type": "object",
    "properties": {f"p{n}": {"type": "array", "items": {"enum": [f"{n}-{k}" for k in range(40)]}} for n in range(60)},
}
"""A schema of 30 KB that is accepted."""
WIRED = 64
"""Outputs of a workflow that are the same input."""


def call(port, who, method, path, body=None, connection=None, **headers):
    """Status and body; a connection of its own unless one is given."""
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        sent = body if isinstance(body, bytes | None) else json.dumps(body)
        own.request(method, path, sent, {"Authorization": f"token {TOKENS[who]}", **headers})
        reply = own.getresponse()
        return reply.status, reply.read()
    finally:
        if connection is None:
            own.close()


class Tarpit:
    """A server that accepts connections and never answers."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.socket.getsockname()[1]
        self.held = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.held.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self):
        """Ends it."""
        self.socket.close()


class Servers:
    """The servers beside the gateway: tools, a model, a receiver that does not answer."""

    def __init__(self):
        self.tools, self.model, self.tarpit = Weather(), Model(), Tarpit()

    def settings(self, folder):
        """Settings of a gateway with these servers, and a key for secrets of webhooks."""
        key = Path(folder, "keys")
        key.write_text("ab" * 32 + "\n")
        key.chmod(0o600)
        return f"""
credentials_key_file = "{key}"
callback_addresses = ["127.0.0.1:{self.tarpit.port}"]
[tool_servers.weather]
openapi = "{self.tools.url}/openapi.json"
[models.small]
url = "{self.model.url}/v1"
[templates.agent]
kernelspec = "python3"
tools = ["weather"]
models = ["small"]
"""

    def close(self):
        """Ends them."""
        for server in (self.tools, self.model, self.tarpit):
            server.close()


def made(port, method, path, body, **headers):
    """The answer to B, which must be a success."""
    status, reply = call(port, "b", method, path, body, **headers)
    assert status < 300, f"{method} {path}: {status} {reply[:500]}"
    return json.loads(reply) if reply else None


def skill(name, version="1.0.0", inputs=OPEN, main="def main(**inputs):\n    return {}\n"):
    """The body that publishes a skill."""
    manifest = {"name": name, "version": version, "kind": "code", "description": "d", "inputs": inputs, "outputs": OPEN}
    return {"manifest": manifest, "files": {"main.py": {"text": main}}}


def workflow(name, steps, version="1.0.0", outputs=None, inputs=OPEN):
    """The body that publishes a workflow."""
    definition = {"name": name, "version": version, "description": "d", "inputs": inputs, "steps": steps}
    return {"definition": {**definition, "outputs": outputs} if outputs else definition}


def prepare(port, servers):
    """Makes the objects of B; returns names and ids of them."""
    made(port, "PUT", "/v1/sessions/work", {})
    made(port, "PUT", "/v1/sessions/agent", {"template": "agent"})
    execution = made(port, "POST", "/v1/sessions/work/executions", {"code": PRINT})["id"]
    data = made(port, "POST", "/v1/sessions/work/executions", {"code": DISPLAY})["outputs"][0]["data"]
    for _ in range(CELLS):
        while call(port, "b", "POST", "/v1/sessions/work/executions", {"code": "1 + 1"})[0] == 429:
            time.sleep(0.5)
    made(port, "POST", "/v1/skills", skill("plain"))
    made(port, "POST", "/v1/skills", skill("deep", inputs=DEEP))
    approvals = [{"id": f"s{n}", "approval": {"text": "May it?"}} for n in range(99)]
    made(port, "POST", "/v1/workflows", workflow("asks", approvals))
    steps = [{"id": "none", "skill": {"name": "plain"}, "map": {"over": {"from": "inputs.list"}}, "inputs": {"x": {"from": "item"}}}]
    outputs = {f"o{n}": {"from": "inputs.x"} for n in range(WIRED)}
    inputs = {"type": "object", "properties": {"list": {"type": "array"}, "x": {"type": "string"}}, "required": ["list", "x"]}
    made(port, "POST", "/v1/workflows", workflow("copies", steps, outputs=outputs, inputs=inputs))
    for _ in range(8):
        made(port, "POST", "/v1/workflows/asks/runs", {"inputs": {}, "wait_s": 0})
    times = {"cron": "0 0 1 1 *", "time_zone": "UTC"}
    made(port, "POST", "/v1/schedules", {"name": "yearly", "target": {"skill": "plain"}, **times})
    hook = made(port, "POST", "/v1/webhooks", {"name": "hook", "target": {"skill": "plain"}})
    return {
        "execution": execution,
        "artifact": next(iter(data.values()))["artifact"],
        "tarpit": f"http://127.0.0.1:{servers.tarpit.port}/",
        "hook": [hook["path"], hook["secret"]],
    }


def asking(path):
    """Asks for a body and reads it."""
    return lambda context: lambda port: call(port, "b", "GET", path.format(**context))[0]


@contextlib.contextmanager
def opened(port, path):
    """A connection on which B has asked for a body, and the status of the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: token {TOKENS['b']}\r\n\r\n".encode())
        yield stream, int(stream.recv(12).split()[1])


def slow(path):
    """Asks for a body and takes a byte of it a second."""

    def of(context):
        def once(port):
            with opened(port, path.format(**context)) as (stream, status):
                for _ in range(5 if status == 200 else 0):
                    stream.recv(1)
                    time.sleep(1)
                return status

        return once

    return of


def greedy(path):
    """Asks for a body that does not end and reads as much of it as comes in a second."""

    def of(context):
        def once(port):
            with opened(port, path.format(**context)) as (stream, status):
                until = time.monotonic() + 1
                while status == 200 and time.monotonic() < until and stream.recv(1 << 20):
                    pass
                return status

        return once

    return of


def posting(path, body, **headers):
    """Posts a body that is made anew each time."""
    return lambda context: lambda port: call(port, "b", "POST", path, body(context), **headers)[0]


def churn(_context):
    """Makes a session and ends it."""

    def once(port):
        status, body = call(port, "b", "POST", "/v1/sessions", {})
        if status == 201:
            call(port, "b", "DELETE", f"/v1/sessions/{json.loads(body)['id']}")
        return status

    return once


def message(context):
    """A signed message to a webhook of B, of 100 kB."""
    path, secret = context["hook"]
    key = base64.b64decode(secret.removeprefix("whsec_"))
    body = json.dumps({"text": "x" * 100_000}).encode()

    def once(port):
        name, stamp = f"msg_{uuid.uuid4().hex}", str(int(time.time()))
        digest = hmac.new(key, f"{name}.{stamp}.".encode() + body, hashlib.sha256).digest()
        signed = {"webhook-id": name, "webhook-timestamp": stamp, "webhook-signature": f"v1,{base64.b64encode(digest).decode()}"}
        return call(port, "b", "POST", path, body, **signed)[0]

    return once


def fresh():
    """A version that was never published."""
    return f"1.0.{uuid.uuid4().int >> 96}"


def copies(_context):
    """Inputs whose outputs are 64 times as large."""
    return {"inputs": {"list": [], "x": "x" * 120_000}, "wait_s": 0}


def mcp(tool, arguments):
    """A call of a tool of the MCP server."""
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return posting("/mcp", lambda _: body, **accept)


def unsigned(_context):
    """A file of a sandbox of E2B with a signature that is wrong, as a stranger sends it."""

    def once(port):
        own = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            path = f"/e2b/files?path=/home/user/x&username=user&signature=v1_{uuid.uuid4().hex}&signature_expiration=9999999999"
            own.request("GET", path, headers={"Host": f"49983-{uuid.uuid4().hex}.localhost"})
            return own.getresponse().status
        finally:
            own.close()

    return once


ASK = "import himalia.sync as h\nfor _ in range(20): h.llm('echo x')"
FLOODS = {
    "notebooks, read slowly": (slow("/v1/sessions/work/notebook.ipynb"), 50),
    "artifacts, read slowly": (slow("/v1/artifacts/{artifact}"), 50),
    "polls of an execution": (asking("/v1/executions/{execution}"), 8),
    "pages of the history": (asking("/v1/sessions/work/history?limit=100"), 8),
    "clients of events, slow": (slow("/v1/sessions/work/events?after=0"), 200),
    "clients of events, fast": (greedy("/v1/sessions/work/events?after=0"), 20),
    "lists of executions": (asking("/v1/sessions/work/executions"), 8),
    "lists of ended sessions": (asking("/v1/sessions?ended=true"), 8),
    "sessions that come and go": (churn, 4),
    "skills, published": (posting("/v1/skills", lambda _: skill("many", fresh(), DEEP)), 8),
    "skills, read": (asking("/v1/skills/deep"), 8),
    "skills, run": (posting("/v1/skills/plain/runs", lambda _: {"inputs": {}}), 4),
    "workflows, published": (posting("/v1/workflows", lambda _: workflow("many", [{"id": "a", "approval": {"text": "?"}}], fresh(), inputs=DEEP)), 8),
    "workflows, run": (posting("/v1/workflows/copies/runs", copies), 8),
    "schedules, run by hand": (posting("/v1/schedules/yearly/runs", lambda _: {}), 4),
    "webhooks, messages": (message, 8),
    "prompts, listed": (asking("/v1/prompts"), 8),
    "tools, called": (posting("/v1/sessions/agent/tools/calls", lambda _: {"tool": "weather.get_forecast", "arguments": {"city": "x"}}), 16),
    "models, asked": (posting("/v1/sessions/agent/executions", lambda _: {"code": ASK}), 2),
    "callbacks, never answered": (posting("/v1/skills/plain/runs", lambda context: {"inputs": {}, "wait_s": 0, "callback": context["tarpit"]}), 4),
    "E2B, wrong signatures": (unsigned, 16),
    "MCP, executions": (mcp("execute", {"session": "work", "code": "1 + 1"}), 8),
}
