"""A WebSocket client of a kernel's channels, in both framings, for tests that look at every message."""

import json
import socket
import struct
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

SUBPROTOCOL = "v1.kernel.websocket.jupyter.org"
NAMES = ("header", "parent_header", "metadata", "content")
# A cell that prints for more than a second, and what it prints.
SLOW = """
import time
for n in range(60):
    print('line', n, flush=True)
    time.sleep(0.02)
'done'
"""
SLOW_LINES = [f"line {n}" for n in range(60)]


def lines(messages, msg_id):
    """The printed lines that belong to a request."""
    text = "".join(
        m["content"]["text"]
        for m in messages
        if m["msg_type"] == "stream" and m["parent_header"].get("msg_id") == msg_id
    )
    return text.splitlines()


def is_idle_of(message, msg_id):
    """Whether a message is the idle status of a request."""
    return (
        message["msg_type"] == "status"
        and message["content"]["execution_state"] == "idle"
        and message["parent_header"].get("msg_id") == msg_id
    )


@dataclass
class Execution:
    """What came back for one request."""

    msg_id: str
    reply: dict | None = None
    iopub: list = field(default_factory=list)

    @property
    def content(self):
        """Content of the reply."""
        return self.reply["content"]

    def text(self, name="stdout"):
        """All text of one stream."""
        return "".join(
            m["content"]["text"] for m in self.iopub if m["msg_type"] == "stream" and m["content"]["name"] == name
        )

    def of(self, kind):
        """The IOPub messages of one type."""
        return [m for m in self.iopub if m["msg_type"] == kind]


def encode_v1(channel, message, buffers):
    """A message as a frame of the v1 subprotocol."""
    parts = [channel.encode(), *(json.dumps(message[name]).encode() for name in NAMES), *buffers]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def decode_v1(frame):
    """A frame of the v1 subprotocol as a message; checks every offset."""
    (count,) = struct.unpack_from("<Q", frame)
    offsets = struct.unpack_from(f"<{count}Q", frame, 8)
    assert (
        count >= 6 and offsets[0] == 8 * (count + 1) and offsets[-1] == len(frame) and list(offsets) == sorted(offsets)
    )
    parts = [frame[start:end] for start, end in zip(offsets, offsets[1:])]
    message = {name: json.loads(part) for name, part in zip(NAMES, parts[1:5])}
    message["channel"] = parts[0].decode()
    message["buffers"] = [bytes(part) for part in parts[5:]]
    message["msg_id"] = message["header"]["msg_id"]
    message["msg_type"] = message["header"]["msg_type"]
    return message


def encode_legacy(channel, message, buffers):
    """A message as a text frame, or a binary one if it has buffers."""
    text = json.dumps({**message, "channel": channel, "buffers": []})
    if not buffers:
        return text
    parts = [json.dumps({**message, "channel": channel}).encode(), *buffers]
    offsets, at = [], 4 * (len(parts) + 1)
    for part in parts:
        offsets.append(at)
        at += len(part)
    return struct.pack(f">{len(parts) + 1}I", len(parts), *offsets) + b"".join(parts)


def decode_legacy(frame):
    """A frame of the legacy framing as a message."""
    if isinstance(frame, str):
        message = json.loads(frame)
        assert message["buffers"] == []
        return message
    (count,) = struct.unpack_from(">I", frame)
    offsets = [*struct.unpack_from(f">{count}I", frame, 4), len(frame)]
    assert count >= 2 and offsets[0] == 4 * (count + 1) and offsets == sorted(offsets)
    parts = [frame[start:end] for start, end in zip(offsets, offsets[1:])]
    message = json.loads(parts[0])
    message["buffers"] = [bytes(part) for part in parts[1:]]
    return message


class Channels:
    """One connection. `framing` is "v1" or "legacy"; `session` the client's id across reconnects."""

    def __init__(self, server, kernel_id, framing="v1", session=None, max_queue=(16, 4), **options):
        self.server = server
        self.kernel_id = kernel_id
        self.framing = framing
        self.session = session or uuid.uuid4().hex
        connection = connect(
            server.websocket_url(f"api/kernels/{kernel_id}/channels?session_id={self.session}"),
            additional_headers={"Authorization": f"token {server.token}"},
            subprotocols=[SUBPROTOCOL] if framing == "v1" else None,
            max_size=None,
            max_queue=max_queue,
            compression=None,
            ping_interval=None,
            proxy=None,
            open_timeout=60,
            **options,
        )
        self.socket = ExitStack().enter_context(connection)
        assert self.socket.subprotocol == (SUBPROTOCOL if framing == "v1" else None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, content, channel="shell", *, metadata=None, buffers=(), parent=None, msg_id=None, **header):
        """Send a message; returns its msg_id. Further arguments go into the header."""
        message = {
            "header": {
                "msg_id": msg_id or uuid.uuid4().hex,
                "msg_type": kind,
                "session": self.session,
                "username": "tester",
                "date": "2026-01-02T03:04:05.678901Z",
                "version": "5.4",
                **header,
            },
            "parent_header": parent or {},
            "metadata": metadata or {},
            "content": content,
        }
        encode = encode_v1 if self.framing == "v1" else encode_legacy
        self.socket.send(encode(channel, message, buffers))
        return message["header"]["msg_id"]

    def receive(self, timeout=60.0):
        """The next message; TimeoutError after `timeout` seconds."""
        frame = self.socket.recv(timeout=max(0.0, timeout))
        return decode_v1(frame) if self.framing == "v1" else decode_legacy(frame)

    def until(self, condition, timeout=60.0):
        """Receive until `condition(message)`; returns all messages up to that one."""
        end, seen = time.monotonic() + timeout, []
        while not seen or not condition(seen[-1]):
            try:
                seen.append(self.receive(end - time.monotonic()))
            except TimeoutError:
                last = [(m["channel"], m["msg_type"]) for m in seen[-5:]]
                raise AssertionError(f"not within {timeout} s; {len(seen)} messages came, the last: {last}") from None
        return seen

    def submit(self, code, **content):
        """Send code to run; returns the msg_id."""
        return self.send(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": True,
                **content,
            },
        )

    def outcome(self, msg_id, timeout=60.0, on_message=None):
        """Receive until the reply and the idle status of a request have come, in either order."""
        execution, idle = Execution(msg_id), False
        end = time.monotonic() + timeout
        while execution.reply is None or not idle:
            try:
                message = self.receive(end - time.monotonic())
            except TimeoutError:
                kinds = [m["msg_type"] for m in execution.iopub[-5:]]
                reply = execution.reply is not None
                raise AssertionError(f"not done within {timeout} s; reply: {reply}, idle: {idle}, {kinds}") from None
            if on_message is not None:
                on_message(message)
            # xeus kernels send null where there is no parent.
            if (message["parent_header"] or {}).get("msg_id") != msg_id:
                continue
            if message["channel"] == "iopub":
                execution.iopub.append(message)
                if message["msg_type"] == "status":
                    idle = idle or message["content"]["execution_state"] == "idle"
            elif message["channel"] in ("shell", "control"):
                execution.reply = message
        return execution

    def run(self, code, timeout=60.0, **content):
        """Run code and return its `Execution`."""
        return self.outcome(self.submit(code, **content), timeout)

    def request(self, kind, content, channel="shell", timeout=60.0, **options):
        """Send any request and return its `Execution`."""
        return self.outcome(self.send(kind, content, channel, **options), timeout)

    def drop(self):
        """End the connection without a closing handshake, as a lost network does.

        Closing the socket alone does not end it: the thread that waits in `recv` keeps it open, and receives what comes next.
        """
        # Not the method of a TLS socket, which takes the encryption off first: that thread would receive records as text.
        socket.socket.shutdown(self.socket.socket, socket.SHUT_RDWR)

    def cut(self):
        """As `drop`; returns what was received and not read."""
        self.drop()
        return self.unread()

    def close(self):
        """End the connection; returns what was received and not read."""
        self.socket.close()
        return self.unread()

    def unread(self):
        """What was received before the end of the connection and not read."""
        received = []
        while True:
            try:
                received.append(self.receive())
            except ConnectionClosed:
                return received
