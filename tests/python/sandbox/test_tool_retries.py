"""Calls of tools that a server refuses with an HTTP status: its status is in the error, and only calls that may be repeated are."""

import http.server
import json
import threading

import pytest
from levels import LEVELS, AtLevel, place
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if "ordinary" not in level]

OPERATIONS = {"get": "read", "post": "write", "put": "set"}
CONFIG = """
[tool_servers.shop]
openapi = "{url}/openapi.json"

[templates.tools]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["shop"]
tools_write = ["shop.*"]
"""
CALLS = """
import himalia, json
ended = {}
for case in %s:
    try:
        reply = await himalia.call_tool("shop." + case.pop("tool"), case, retries=3)
        ended[case["case"]] = reply.content
    except himalia.ToolFailed as error:
        ended[case["case"]] = [error.server_status, error.retry_after]
print(json.dumps(ended))
"""


def description(url):
    """An OpenAPI description: each operation has a case, a status, how often it is refused, and after which time it may be called."""
    names = ("case", "status", "refusals", "after")
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    operation = lambda name: {"operationId": name, "parameters": parameters, "responses": {"200": {"description": "Done."}}}  # noqa: E731
    paths = {"/shop": {method: operation(name) for method, name in OPERATIONS.items()}}
    return {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": url}], "paths": paths}


class Shop:
    """A server that refuses calls as their arguments say, and counts them."""

    def __init__(self):
        self.attempts = {}
        shop = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                path, _, query = self.path.partition("?")
                if path == "/openapi.json":
                    return self.send(200, description(shop.url))
                asked = dict(part.split("=") for part in query.split("&"))
                count = shop.attempts[asked["case"]] = shop.attempts.get(asked["case"], 0) + 1
                if count > int(asked["refusals"]):
                    return self.send(200, "done")
                after = {"retry-after": asked["after"]} if "after" in asked else {}
                return self.send(int(asked["status"]), "later", after)

            do_GET = do_POST = do_PUT = answer

            def send(self, status, content, headers=()):
                text = json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"content-type": "application/json", "content-length": str(len(text)), **dict(headers)}.items():
                    self.send_header(name, value)
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


@pytest.fixture(scope="module")
def shop():
    made = Shop()
    yield made
    made.close()


@pytest.fixture(scope="module", params=AT)
def own(request, shop, tmp_path_factory, kernel_python):
    """A gateway with that server."""
    shop.attempts.clear()
    text = CONFIG.format(url=shop.url, place=place(request.param))
    gateway = AtLevel(tmp_path_factory.mktemp("retries"), request.param, extra=text)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def caller(own):
    """A session that may use it."""
    made = own.session("tools")["id"]
    servers = lambda: own.http.get(f"v1/sessions/{made}/tools/servers").json()["servers"]  # noqa: E731
    eventually(lambda: servers()[0]["ready"], lambda: str(servers()), 60)
    yield made
    own.end(made)


def case(tool, status, refusals, after=None):
    """The arguments of a call."""
    name = f"{tool}-{status}-{refusals}-{after}"
    made = {"tool": tool, "case": name, "status": str(status), "refusals": str(refusals)}
    return made if after is None else {**made, "after": str(after)}


def test_only_calls_that_may_be_repeated_reach_the_server_again(own, caller, shop):
    expected = {}
    cases = []
    for status in (429, 503):
        for tool, repeats in (("read", True), ("set", True), ("write", False)):
            for refusals, after in ((2, 0), (1, None)):
                cases.append(case(tool, status, refusals, after))
                outcome = "done" if repeats else [status, after]
                expected[cases[-1]["case"]] = (outcome, refusals + 1 if repeats else 1)
    # In vain, not now, and another status.
    for refused, attempts in ((case("read", 503, 9, 0), 4), (case("read", 429, 1, 3600), 1), (case("read", 500, 1, 0), 1)):
        cases.append(refused)
        expected[refused["case"]] = ([int(refused["status"]), int(refused["after"])], attempts)
    reply = own.http.post(f"v1/sessions/{caller}/executions", json={"code": CALLS % json.dumps(cases), "wait_s": 90}, timeout=120)
    result = reply.json()
    assert result["error"] is None, result["error"]
    ended = json.loads(result["text"])
    assert {name: (ended[name], shop.attempts[name]) for name in expected} == expected


@pytest.mark.parametrize("after", [7, None])
def test_a_problem_has_the_status_of_the_server(own, caller, shop, after):
    arguments = case("read", 429, 5, after)
    del arguments["tool"]
    reply = own.http.post(f"v1/sessions/{caller}/tools/calls", json={"tool": "shop.read", "arguments": arguments})
    problem = reply.json()
    assert (reply.status_code, problem["code"], problem["server_status"]) == (422, "tool_failed", 429), problem
    assert (problem.get("retry_after_s"), reply.headers.get("retry-after")) == (after, after and str(after))
    assert shop.attempts[arguments["case"]] == 1
