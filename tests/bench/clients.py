"""The two clients that the benchmark measures with: pyzmq straight to a kernel, and a WebSocket in front of a gateway.

Both offer `execute(code, at_first_stream)`: send an execute request, read until its reply and its `idle` have been seen,
and return the number of stream messages in between; at the first of them call `at_first_stream`, if given. The WebSocket client is a bare socket, so that the
time measured is the gateway's and not a library's.
"""

import hashlib
import hmac
import itertools
import json
import os
import socket
import struct
import uuid

import zmq

DELIMITER = b"<IDS|MSG>"
# A WebSocket frame from this size on is not gathered in the client's buffer first.
LARGE_BYTES = 1 << 20


def request(session, number, code):
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
    }
    return message(session, number, "execute_request", content)


def message(session, number, msg_type, content):
    header = {
        "msg_id": f"{session}_{number}",
        "msg_type": msg_type,
        "username": "bench",
        "session": session,
        "date": "2026-01-01T00:00:00.000000Z",
        "version": "5.3",
    }
    return header["msg_id"].encode(), [json.dumps(header).encode(), b"{}", b"{}", json.dumps(content).encode()]


class Progress:
    """What has been seen of one request: its reply, its idle, and how many stream messages."""

    def __init__(self, msg_id, at_first_stream=None):
        self.msg_id, self.reply, self.idle, self.streams = msg_id, False, False, 0
        self.at_first_stream = at_first_stream

    def see(self, channel, header, parent, content):
        if self.msg_id not in parent:
            return
        if channel == b"shell":
            self.reply = True
        elif b'"stream"' in header:
            self.streams += 1
            if self.streams == 1 and self.at_first_stream:
                self.at_first_stream()
        elif b'"status"' in header and b'"idle"' in content:
            self.idle = True

    def done(self):
        return self.reply and self.idle


class Direct:
    """jupyter_client's role, with nothing between: DEALER and SUB over the kernel's own endpoints."""

    def __init__(self, connection):
        self.key = connection["key"].encode()
        self.session, self.numbers = uuid.uuid4().hex, itertools.count()
        context = zmq.Context.instance()
        base = f"ipc://{connection['ip']}-"
        self.shell, self.iopub = context.socket(zmq.DEALER), context.socket(zmq.SUB)
        self.iopub.setsockopt(zmq.RCVHWM, 0)
        self.iopub.setsockopt(zmq.SUBSCRIBE, b"")
        self.iopub.connect(base + str(connection["iopub_port"]))
        self.shell.connect(base + str(connection["shell_port"]))
        self.iopub.recv_multipart()  # iopub_welcome: subscribed
        self.poller = zmq.Poller()
        self.poller.register(self.shell, zmq.POLLIN)
        self.poller.register(self.iopub, zmq.POLLIN)

    def execute(self, code, at_first_stream=None):
        msg_id, parts = request(self.session, next(self.numbers), code)
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(part)
        progress = Progress(msg_id, at_first_stream)
        self.shell.send_multipart([DELIMITER, mac.hexdigest().encode(), *parts])
        while not progress.done():
            for ready, _ in self.poller.poll():
                frames = ready.recv_multipart()
                cut = frames.index(DELIMITER)
                self.check(frames[cut + 1], frames[cut + 2 : cut + 6])
                channel = b"shell" if ready is self.shell else b"iopub"
                progress.see(channel, frames[cut + 2], frames[cut + 3], frames[cut + 5])
        return progress.streams

    def check(self, signature, parts):
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(part)
        if mac.hexdigest().encode() != signature:
            raise ValueError("bad signature")


class WebSocket:
    """A bare v1 WebSocket client. `quick_ack`: acknowledge each TCP segment at once, which hides a server's
    missing TCP_NODELAY."""

    def __init__(self, host, port, kernel_id, token, quick_ack=False):
        self.session, self.numbers, self.quick_ack = uuid.uuid4().hex, itertools.count(), quick_ack
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(
            (
                f"GET /api/kernels/{kernel_id}/channels?session_id={self.session} HTTP/1.1\r\n"
                f"Host: {host}:{port}\r\nAuthorization: token {token}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                "Sec-WebSocket-Protocol: v1.kernel.websocket.jupyter.org\r\n\r\n"
            ).encode()
        )
        self.buffer, self.at = bytearray(), 0
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(head.decode())
        self.buffer = bytearray(rest)

    def fill(self):
        if self.quick_ack:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ConnectionError("closed by the gateway")
        if self.at:
            del self.buffer[: self.at]
            self.at = 0
        self.buffer += chunk

    def need(self, count):
        while len(self.buffer) - self.at < count:
            self.fill()

    def large(self, count):
        """The next `count` bytes, read straight to where they are kept."""
        payload = bytearray(count)
        view, have = memoryview(payload), len(self.buffer) - self.at
        view[:have] = memoryview(self.buffer)[self.at :]
        self.buffer, self.at = bytearray(), 0
        while have < count:
            got = self.socket.recv_into(view[have:])
            if not got:
                raise ConnectionError("closed by the gateway")
            have += got
        return payload

    def frame(self):
        """One frame's (opcode, payload); the benchmark's gateways do not fragment."""
        self.need(2)
        opcode, length = self.buffer[self.at] & 15, self.buffer[self.at + 1] & 127
        head = 2
        if length == 126:
            self.need(4)
            length, head = struct.unpack_from(">H", self.buffer, self.at + 2)[0], 4
        elif length == 127:
            self.need(10)
            length, head = struct.unpack_from(">Q", self.buffer, self.at + 2)[0], 10
            if length > LARGE_BYTES and length > len(self.buffer) - self.at - head:
                self.at += head
                return opcode, self.large(length)
        self.need(head + length)
        start = self.at + head
        payload = bytes(self.buffer[start : start + length])
        self.at = start + length
        return opcode, payload

    def send(self, opcode, payload):
        mask, length = os.urandom(4), len(payload)
        head = bytes([0x80 | opcode, 0x80 | length]) if length < 126 else bytes([0x80 | opcode, 0xFE]) + struct.pack(">H", length)
        keys = (mask * (length // 4 + 1))[:length]
        masked = (int.from_bytes(payload, "little") ^ int.from_bytes(keys, "little")).to_bytes(length, "little")
        self.socket.sendall(head + mask + masked)

    def execute(self, code, at_first_stream=None):
        return self.ask(*request(self.session, next(self.numbers), code), at_first_stream)

    def kernel_info(self):
        self.ask(*message(self.session, next(self.numbers), "kernel_info_request", {}))

    def ask(self, msg_id, parts, at_first_stream=None):
        blobs = [b"shell", *parts]
        offset, offsets = 8 * (2 + len(blobs)), []
        for blob in blobs:
            offsets.append(offset)
            offset += len(blob)
        offsets.append(offset)
        progress = Progress(msg_id, at_first_stream)
        self.send(2, struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets) + b"".join(blobs))
        while not progress.done():
            opcode, payload = self.frame()
            if opcode == 9:
                self.send(10, payload)
            elif opcode == 8:
                raise ConnectionError(f"closed: {payload!r}")
            elif opcode == 2:
                count = struct.unpack_from("<Q", payload)[0]
                at = struct.unpack_from(f"<{count}Q", payload, 8)
                channel, header, parent, _metadata = (bytes(payload[a:b]) for a, b in zip(at[:4], at[1:5]))
                content = payload[at[4] : at[5]] if len(payload) < LARGE_BYTES else b""
                progress.see(channel, header, parent, content)
        return progress.streams

    def close(self):
        self.socket.close()
