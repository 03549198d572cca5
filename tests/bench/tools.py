"""What calls of tools from code cost: one call and 100 at once against the same requests without Himalia, the search among 10,000 tools,
and what a model has to read to find one of them and call it.

The server of tools is a small one of this bench, which speaks MCP and costs little itself. The same Python runs in a session and in a
process here, which asks the server directly.
"""

import argparse
import http.client
import http.server
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import provenance
import tables
from network import TOKEN, Session

TOOLS = 10_000
PARALLEL = 100
# Seconds that the tool of the parallel calls takes.
NAP = 0.1
SUBJECTS = ["invoice", "order", "charge", "refund", "customer", "contract", "shipment", "ticket", "report", "payment"]
VERBS = ["list", "get", "create", "update", "delete", "search", "archive", "export", "import", "count"]
REGIONS = [f"region_{number:03}" for number in range(TOOLS // 100)]
WANTED = "refunds of a customer in region 042"


def definition(name, description, properties, read_only=True):
    """A tool as MCP lists it."""
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1], "additionalProperties": False}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": read_only}}


def many():
    """10,000 tools, of which each is about something else."""
    text = {"type": "string", "description": "Identifier of a customer, as the directory has it."}
    count = {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Most entries that are returned."}
    for region in REGIONS:
        for verb in VERBS:
            for subject in SUBJECTS:
                name = f"{verb}_{subject}s_{region}"
                said = f"{verb.capitalize()} {subject}s of a customer in {region.replace('_', ' ')}."
                yield definition(name, said, {"customer": text, "limit": count, "since": {"type": "string", "format": "date"}})


class Handler(http.server.BaseHTTPRequestHandler):
    """MCP over streamable HTTP, without sessions."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked:
            self.reply(202, b"")
            return
        params = asked.get("params", {})
        match asked["method"]:
            case "initialize":
                result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}}
            case "tools/list":
                result = {"tools": self.server.tools}
            case "tools/call":
                if params["name"] == "nap":
                    time.sleep(NAP)
                result = {"content": [{"type": "text", "text": json.dumps(params["arguments"])}], "structuredContent": params["arguments"]}
            case method:
                error = {"code": -32601, "message": f"there is no method {method}"}
                self.reply(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode())
                return
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode())

    def do_GET(self):
        self.reply(405, b"")

    def reply(self, status, body):
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """In a process of its own: a bench that shared its interpreter with the server would measure both."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self, tools):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tools = tools


def serve():
    """The server as a program: one with two tools and one with all of them. Prints their ports."""
    few = [definition("echo", "Return the arguments.", {"number": {"type": "integer"}}), definition("nap", "Sleep.", {"number": {"type": "integer"}})]
    servers = [Server(few), Server(list(many()))]
    print(*(one.server_port for one in servers), flush=True)
    threads = [threading.Thread(target=one.serve_forever) for one in servers]
    for one in threads:
        one.start()


DIRECT = """
import http.client, json, time
from concurrent.futures import ThreadPoolExecutor
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
def call(connection, tool, number):
    asked = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": {"number": number}}}
    connection.request("POST", "/mcp", json.dumps(asked), HEADERS)
    return json.loads(connection.getresponse().read())["result"]["structuredContent"]["number"]
def serial(port, count):
    connection, took = http.client.HTTPConnection("127.0.0.1", port), []
    for number in range(count):
        begun = time.perf_counter()
        assert call(connection, "echo", number) == number
        took.append(time.perf_counter() - begun)
    return took
def parallel(port, count):
    with ThreadPoolExecutor(count) as pool:
        begun = time.perf_counter()
        done = list(pool.map(lambda number: call(http.client.HTTPConnection("127.0.0.1", port), "nap", number), range(count)))
        assert done == list(range(count))
        return time.perf_counter() - begun
"""

INSIDE = """
import asyncio, himalia, json, time
async def serial(count):
    took = []
    for number in range(count):
        begun = time.perf_counter()
        assert (await himalia.call("bench.echo", number=number))["number"] == number
        # What is printed has a budget of characters.
        took.append(round(time.perf_counter() - begun, 6))
    return took
async def parallel(count):
    begun = time.perf_counter()
    done = await asyncio.gather(*(himalia.call("bench.nap", number=number) for number in range(count)))
    assert [one["number"] for one in done] == list(range(count))
    return time.perf_counter() - begun
"""

CONFIG = """
[tool_servers.bench]
url = "http://127.0.0.1:{few}/mcp"

[tool_servers.many]
url = "http://127.0.0.1:{many}/mcp"
description = "The shop: customers, orders, payments."

[templates.reach]
kernelspec = "python3"
isolation = "namespaces"
tools = ["bench", "many"]
tool_calls_per_execution = 100000
"""

STEPS = f"""
print(await himalia.list_api_servers())
found = await himalia.tools_search({WANTED!r}, "many", 3)
print(found)
print(await himalia.get_tool_info("many.list_refunds_region_042"))
print(await himalia.call("many.list_refunds_region_042", customer="c1"))
"""


def asked(session, path):
    """JSON of the gateway, and the seconds that it took."""
    host = urllib.parse.urlsplit(session.url)
    connection = http.client.HTTPConnection(host.hostname, host.port)
    begun = time.perf_counter()
    connection.request("GET", f"{host.path}{path}", headers={"Authorization": f"token {TOKEN}"})
    reply = connection.getresponse()
    body = reply.read()
    took = time.perf_counter() - begun
    connection.close()
    assert reply.status == 200, body
    return json.loads(body), took


def measure(rounds, calls):
    """All figures, the rounds of both sides interleaved."""
    program = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    few, full = map(int, program.stdout.readline().split())
    scope = {}
    exec(DIRECT, scope)
    rows = {name: {"calls": [], "parallel": []} for name in ("direct", "himalia")}
    with tempfile.TemporaryDirectory(prefix="himalia-bench-") as folder:
        session = Session(folder, few, CONFIG.format(few=few, many=full))
        try:
            until = time.monotonic() + 120
            while sum(one["tools"] for one in asked(session, f"/sessions/{session.id}/tools/servers")[0]["servers"]) != TOOLS + 2:
                if time.monotonic() > until:
                    raise SystemExit("the servers have not listed their tools")
                time.sleep(0.1)
            session.execute(INSIDE)
            for counted in [False, *[True] * rounds]:
                took = {
                    "direct": (scope["serial"](few, calls), scope["parallel"](few, PARALLEL)),
                    "himalia": tuple(session.run(f"await {one}") for one in (f"serial({calls})", f"parallel({PARALLEL})")),
                }
                if counted:
                    for name, (serial, parallel) in took.items():
                        rows[name]["calls"] += serial
                        rows[name]["parallel"].append(parallel)
            words = urllib.parse.quote(WANTED)
            path = f"/sessions/{session.id}/tools?server=many&limit=10&query={words}"
            searches = sorted(asked(session, path)[1] for _ in range(200))
            text = session.execute(STEPS)
        finally:
            session.close()
            program.kill()
            program.wait()
    return {
        "calls": {
            name: {"p50_ms": statistics.median(row["calls"]) * 1e3, "p99_ms": statistics.quantiles(row["calls"], n=100)[98] * 1e3, "parallel_s": statistics.median(row["parallel"])}
            for name, row in rows.items()
        },
        "parallel": PARALLEL,
        "nap_s": NAP,
        "tools": TOOLS,
        "search": {"p50_ms": searches[100] * 1e3, "p99_ms": searches[198] * 1e3},
        "context": {"steps": len(text) + len(STEPS), "schemas": len(json.dumps(list(many())))},
    }


def main():
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=500, help="of one round")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    program = Path(os.environ["HIMALIA_BIN"]).resolve()
    report = {**provenance.about(), "program": os.path.relpath(program, provenance.ROOT), **measure(args.rounds, args.calls)}
    print(tables.tools(report))
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
