"""A small client of one kernel over the WebSocket, in the `v1.kernel.websocket.jupyter.org` framing."""

import json
import struct
import time
import uuid
from datetime import UTC, datetime

from websockets.sync.client import connect

SUBPROTOCOL = "v1.kernel.websocket.jupyter.org"


def encode(channel, header, parent, metadata, content):
    """One message as a frame: the count of offsets, the offsets (little-endian u64), and the parts."""
    parts = [channel.encode()] + [json.dumps(part).encode() for part in (header, parent, metadata, content)]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    return struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)


def decode(frame):
    """A frame as (channel, message)."""
    (count,) = struct.unpack_from("<Q", frame)
    offsets = struct.unpack_from(f"<{count}Q", frame, 8)
    parts = [frame[start:end] for start, end in zip(offsets, offsets[1:])]
    names = ("header", "parent_header", "metadata", "content")
    message = {name: json.loads(part) for name, part in zip(names, parts[1:5])}
    message["buffers"] = parts[5:]
    return parts[0].decode(), message


class Kernel:
    """One connection to one kernel, a context manager. Variables stay in the kernel between the calls and after."""

    def __init__(self, gateway, kernel_id):
        self.id = kernel_id
        self.session = uuid.uuid4().hex
        self._connection = connect(
            f"{gateway.url.replace('http', 'ws', 1)}api/kernels/{kernel_id}/channels?session_id={self.session}",
            additional_headers={"Authorization": f"Bearer {gateway.token}"},
            subprotocols=[SUBPROTOCOL],
            max_size=None,
            compression=None,
        )

    def __enter__(self):
        self._socket = self._connection.__enter__()
        return self

    def __exit__(self, *error):
        """Close the connection; the kernel continues."""
        self._connection.__exit__(*error)

    def send(self, kind, content, channel="shell"):
        """Send a request; returns its id."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "session": self.session,
            "username": "demo",
            "date": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "version": "5.4",
        }
        self._socket.send(encode(channel, header, {}, {}, content))
        return header["msg_id"]

    def submit(self, code):
        """Send code to run; returns the request's id at once."""
        return self.send(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": True,
            },
        )

    def execute(self, code, on_output):
        """Run code; `on_output(kind, content)` is called for each output as it comes. Returns (status, seconds).

        An execution is done when its reply and its idle status have both come: they travel on different channels, in
        either order.
        """
        started = time.monotonic()
        request = self.submit(code)
        status, idle = None, False
        while status is None or not idle:
            _, message = decode(self._socket.recv())
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "execute_reply":
                status = content["status"]
            elif kind == "status":
                idle = idle or content["execution_state"] == "idle"
            else:
                on_output(kind, content)
        return status, time.monotonic() - started
