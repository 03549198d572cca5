"""Modules that are made of the tools of a server, calls that are repeated, and replies that become files: with a door of this test."""

import asyncio
import http.server
import importlib
import inspect
import json
import pickle
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import List, Literal, Optional
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

LIBRARY = Path(__file__).parents[3] / "kernelspecs/python3/himalia_kernel/library"

LIST = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "default": 10},
        "customer-id": {"type": "string", "description": "Whose\norders."},
        "state": {"enum": ["open", "closed"]},
        "from": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "by": {"$ref": "#/$defs/keys"},
    },
    "required": ["customer-id"],
    "$defs": {"keys": {"type": "array", "items": {"type": "string"}}},
}
LISTED = {
    "$ref": "#/$defs/list",
    "$defs": {
        "list": {
            "type": "object",
            "properties": {"orders": {"type": "array", "items": {"$ref": "#/$defs/order"}}, "total": {"type": "integer"}},
            "required": ["orders"],
        },
        "order": {"type": "object", "properties": {"number": {"type": "integer"}, "raw": {"type": "string"}}, "required": ["number"]},
    },
}
TOOLS = [
    {"name": "list-orders", "description": "List orders.", "input_schema": LIST, "output_schema": LISTED, "read_only": True},
    {"name": "list.orders", "description": "", "input_schema": {"type": "object"}, "read_only": False},
    {"name": "sync", "description": "Synchronize.", "input_schema": {"type": "object", "properties": {}}, "read_only": False},
]


class Door(http.server.ThreadingHTTPServer):
    """The door of a sandbox, with one server of tools. `replies` are what calls return, in turn: a status and a body."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls, self.replies, self.info = [], [], {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path, query):
        if path == "/v1/servers":
            return 200, {"servers": [{"name": "my-shop"}], "text": ""}
        if path == "/v1/servers/my-shop/tools":
            after = query["after"][0] if "after" in query else ""
            rest = [one for one in sorted(TOOLS, key=lambda one: one["name"]) if one["name"] > after]
            return 200, {"tools": rest[:2], "next": rest[1]["name"] if len(rest) > 2 else None}
        return 200, {"text": "", **self.info}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _send(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        parts = urlsplit(self.path)
        self._send(*self.server.answer(unquote(parts.path), parse_qs(parts.query)))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.calls.append((asked["tool"], asked["arguments"]))
        status, answer = self.server.replies.pop(0)
        self._send(status, {"call": len(self.server.calls), "duration_ms": 1, "files": [], **answer} if status == 200 else answer)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def door():
    made = Door()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def himalia(door, monkeypatch):
    """The library of the kernel, as it is imported in a sandbox."""
    door.calls.clear()
    door.replies.clear()
    before = set(sys.modules)
    finders = list(sys.meta_path)
    monkeypatch.setenv("HIMALIA_API", "http://himalia.internal")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{door.server_port}")
    monkeypatch.syspath_prepend(str(LIBRARY))
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "himalia"}
    yield importlib.import_module("himalia")
    for name in set(sys.modules) - before:
        if name.startswith("himalia"):
            del sys.modules[name]
    sys.modules.update(hidden)
    sys.meta_path[:] = finders


@pytest.fixture
def shop(himalia):
    """The module of the server."""
    return importlib.import_module("himalia.servers.my_shop")


def test_a_server_is_a_module_of_functions(shop):
    assert shop.__all__ == ["list_orders", "ListOrdersResult", "list_orders_2", "sync_2"]
    assert importlib.reload(shop).__all__ == ["list_orders", "ListOrdersResult", "list_orders_2", "sync_2"]
    assert "my_shop" in dir(sys.modules["himalia.servers"])
    parameters = inspect.signature(shop.list_orders).parameters
    assert list(parameters) == ["customer_id", "limit", "state", "from_", "by"]
    assert [one.default for one in parameters.values()] == [inspect.Parameter.empty, 10, None, None, None]
    assert parameters["limit"].annotation is int and parameters["customer_id"].annotation is str
    assert parameters["state"].annotation == Optional[Literal["open", "closed"]]
    assert parameters["from_"].annotation == Optional[str] and parameters["by"].annotation == Optional[List[str]]
    assert inspect.signature(shop.list_orders).return_annotation is shop.ListOrdersResult
    assert inspect.getdoc(shop.list_orders) == "List orders.\n\nIt only reads.\n\ncustomer_id: Whose orders."


def test_a_function_calls_its_tool_and_returns_a_dataclass(shop, door):
    content = {"orders": [{"number": 7, "raw": "x", "more": [1]}], "note": "n"}
    door.replies += [(200, {"content": content})] * 2
    listed = asyncio.run(shop.list_orders("ada", limit=1, from_=None))
    assert door.calls == [("my-shop.list-orders", {"customer-id": "ada", "limit": 1, "from": None})], "what is not given is not sent"
    order = listed.orders[0]
    assert (order.number, order.raw_2 if hasattr(order, "raw_2") else None, order["more"], listed["note"], listed.total) == (7, "x", [1], "n", None)
    assert isinstance(listed, shop.ListOrdersResult) and "note" in listed and dict(listed) == content
    assert shop.sync.list_orders("ada") == listed
    assert pickle.loads(pickle.dumps(listed)).total is None


def test_wrong_arguments_and_names_say_what_there_is(shop, door):
    with pytest.raises(TypeError, match=r"my-shop.list-orders: .*'customer'; it is list_orders\(customer_id: str, \*, limit: int = 10"):
        asyncio.run(shop.list_orders("ada", customer="b"))
    assert door.calls == [], "nothing is sent"
    with pytest.raises(ModuleNotFoundError, match="no server shop; there are: my_shop"):
        importlib.import_module("himalia.servers.shop")
    # A schema without properties allows any.
    door.replies.append((200, {"content": 1}))
    assert asyncio.run(shop.list_orders_2(anything=1)) == 1 and door.calls == [("my-shop.list.orders", {"anything": 1})]


def test_a_call_is_repeated_only_if_that_changes_nothing(himalia, door, monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(sys.modules["himalia_inside.people"].run, "__defaults__", (pause,))
    away = (503, {"code": "tool_unavailable", "message": "away"})
    lost = (504, {"code": "tool_timeout", "message": "lost"})
    done = (200, {"content": "done"})

    def call(replies, retries, **info):
        door.calls.clear()
        door.replies[:] = replies
        door.info = info
        return asyncio.run(himalia.call_tool("my-shop.sync", retries=retries)).content

    assert call([away, away, done], 2) == "done" and pauses == [1, 2]
    with pytest.raises(himalia.ToolUnavailable):
        call([away, away, done], 1)
    with pytest.raises(himalia.ToolUnavailable):
        call([away, done], 0)
    with pytest.raises(himalia.ToolTimeout):
        call([lost, done], 3, read_only=False, idempotent=False)
    assert len(door.calls) == 1
    assert call([lost, done], 3, read_only=False, idempotent=True) == "done"
    assert call([lost, done], 3, read_only=True, idempotent=False) == "done"
    with pytest.raises(himalia.ToolFailed):
        call([(422, {"code": "tool_failed", "message": "no"}), done], 3, read_only=True, idempotent=True)

    def later(status, **said):
        return 422, {"code": "tool_failed", "message": "later", "server_status": status, **said}

    pauses.clear()
    assert call([later(503, retry_after_s=0), later(429), done], 3, read_only=True, idempotent=False) == "done" and pauses == [0, 2]
    assert call([later(429, retry_after_s=7), done], 1, read_only=False, idempotent=True) == "done" and pauses[-1] == 7
    for refused in (
        ([later(503), done], 3, {"read_only": False, "idempotent": False}),
        ([later(503, retry_after_s=3600), done], 3, {"read_only": True, "idempotent": True}),
        ([later(500), done], 3, {"read_only": True, "idempotent": True}),
        ([later(503), later(503), done], 1, {"read_only": True, "idempotent": True}),
    ):
        with pytest.raises(himalia.ToolFailed) as failed:
            call(refused[0], refused[1], **refused[2])
        assert failed.value.server_status in (500, 503), failed.value
    assert pickle.loads(pickle.dumps(failed.value)).server_status == 503


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{", None])
def test_a_closed_connection_is_called_so(himalia, monkeypatch, sent):
    """The gateway ends before or within the head, within the body, or with a reset."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        for _ in range(2):
            connection, _ = listener.accept()
            while b"\r\n\r\n" not in connection.recv(65536):
                pass
            if sent is None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                connection.sendall(sent)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    monkeypatch.setenv("HIMALIA_API", "http://himalia.internal")
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
    with listener:
        for call in (lambda: asyncio.run(himalia.call("orders.list")), lambda: himalia.sync.call("orders.list")):
            with pytest.raises(himalia.OutcomeUnknown) as lost:
                call()
            assert "the gateway closed the connection before it answered" in str(lost.value), lost.value


def test_a_reply_becomes_a_file(himalia, door, tmp_path):
    rows = [{"number": 1}, {"number": 2}]

    def saved(name, **reply):
        door.replies.append((200, reply))
        return himalia.sync.call_to_file("my-shop.list-orders", tmp_path / name, limit=2)

    lines = saved("orders.jsonl", content={"orders": rows})
    assert lines.rows == 2 and [json.loads(one) for one in Path(lines.path).read_text().splitlines()] == rows
    assert json.loads(Path(saved("orders.json", content={"a": 1}).path).read_text()) == {"a": 1}
    assert Path(saved("text.md", content="# text").path).read_text() == "# text"
    image = saved("plot.png", content="", files=[{"mime_type": "image/png", "data": "iVBO"}])
    assert Path(image.path).read_bytes() == b"\x89PN" and image.bytes == 3
    with pytest.raises(ValueError, match="no table"):
        saved("orders.jsonl", content={"a": rows, "b": rows})
    assert len(Path(lines.path).read_text().splitlines()) == 2, "it is as it was"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["orders.json", "orders.jsonl", "plot.png", "text.md"]
    before = len(door.calls)
    with pytest.raises(FileNotFoundError):
        himalia.sync.call_to_file("my-shop.list-orders", tmp_path / "none" / "x.json")
    assert len(door.calls) == before, "nothing is called for a file that cannot be"


def test_text_that_is_no_unicode_is_replaced_in_what_is_sent(himalia):
    api = importlib.import_module("himalia_inside.api")
    sent = api.call_request("orders.find", {"name": "n\udcff\ud83d\ude00", "ü": [1.5, None]}, None).body
    assert json.loads(sent.decode())["arguments"] == {"name": "n\ufffd😀", "ü": [1.5, None]}
    with pytest.raises(ValueError, match="Out of range float"):
        api.call_request("orders.find", {"x": float("nan")}, None)


def test_the_library_alone_imports_nothing_of_the_servers():
    code = "import himalia, sys; assert 'himalia_inside.servers' not in sys.modules and 'himalia_inside.schemas' not in sys.modules"
    subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(LIBRARY)!r}); {code}"], check=True, timeout=60)
