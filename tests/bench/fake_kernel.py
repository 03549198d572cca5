"""A Jupyter kernel that does no work, so that a benchmark measures what stands in front of it.

`python fake_kernel.py -f connection_file` answers `kernel_info_request` and `execute_request`. The code of an
execute request is `pass` (status busy, execute_input, status idle, reply), `flood COUNT BYTES` (that many
stream messages in between), `display BYTES` (one display of that many), `lines COUNT BYTES [wait]` (the same of lines of 100 bytes), `wait` (one stream message, and then nothing until SIGINT) or `tick [MS]` (one every 20 ms, or every MS ms, until SIGINT). It publishes through an XPUB with `XPUB_NODROP`, so that a slow reader slows it
down instead of losing messages.
"""

import hashlib
import hmac
import itertools
import json
import os
import signal
import sys
import time
import uuid
from datetime import datetime, timezone

import zmq

DELIMITER = b"<IDS|MSG>"
SESSION = uuid.uuid4().hex


class Kernel:
    def __init__(self, path):
        with open(path) as file:
            self.conn = json.load(file)
        self.key = self.conn["key"].encode()
        self.numbers = itertools.count()
        self.executions = 0
        context = zmq.Context()
        self.shell = self.bind(context, zmq.ROUTER, "shell_port")
        self.control = self.bind(context, zmq.ROUTER, "control_port")
        self.stdin = self.bind(context, zmq.ROUTER, "stdin_port")
        self.heartbeat = self.bind(context, zmq.ROUTER, "hb_port")
        self.iopub = context.socket(zmq.XPUB)
        self.iopub.setsockopt(zmq.XPUB_NODROP, 1)
        self.iopub.bind(self.address("iopub_port"))

    def address(self, name):
        separator = "-" if self.conn["transport"] == "ipc" else ":"
        return f"{self.conn['transport']}://{self.conn['ip']}{separator}{self.conn[name]}"

    def bind(self, context, kind, name):
        socket = context.socket(kind)
        socket.bind(self.address(name))
        return socket

    def header(self, kind):
        return json.dumps(
            {
                "msg_id": f"{SESSION}_{next(self.numbers)}",
                "msg_type": kind,
                "username": "fake",
                "session": SESSION,
                "date": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
                "version": "5.3",
            }
        ).encode()

    def frames(self, kind, parent, content):
        parts = [self.header(kind), parent, b"{}", content]
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(part)
        return [DELIMITER, mac.hexdigest().encode(), *parts]

    def publish(self, kind, parent, content):
        self.iopub.send_multipart([kind.encode(), *self.frames(kind, parent, content)])

    def serve(self):
        poller = zmq.Poller()
        for socket in (self.shell, self.control, self.heartbeat, self.iopub):
            poller.register(socket, zmq.POLLIN)
        while True:
            for socket, _ in poller.poll():
                frames = socket.recv_multipart()
                if socket is self.heartbeat:
                    socket.send_multipart(frames)
                elif socket is self.iopub:
                    if frames[0][:1] == b"\x01":
                        welcome = self.frames("iopub_welcome", b"{}", b'{"subscription":""}')
                        socket.send_multipart(welcome)
                elif not self.handle(socket, frames):
                    return

    def handle(self, socket, frames):
        cut = frames.index(DELIMITER)
        identities, (header, _parent, _metadata, content) = frames[:cut], frames[cut + 2 : cut + 6]
        kind = json.loads(header)["msg_type"]
        self.publish("status", header, b'{"execution_state":"busy"}')
        reply = b'{"status":"ok"}'
        if kind == "execute_request":
            reply = self.execute(header, json.loads(content))
        elif kind == "kernel_info_request":
            reply = json.dumps(INFO).encode()
        socket.send_multipart([*identities, *self.frames(kind.replace("request", "reply"), header, reply)])
        self.publish("status", header, b'{"execution_state":"idle"}')
        return kind != "shutdown_request"

    def execute(self, header, content):
        self.executions += 1
        code = content["code"]
        shown = {"code": code, "execution_count": self.executions}
        self.publish("execute_input", header, json.dumps(shown).encode())
        if code.startswith("flood"):
            _, count, size = code.split()
            text = json.dumps({"name": "stdout", "text": "x" * int(size)}).encode()
            for _ in range(int(count)):
                self.publish("stream", header, text)
        elif code.startswith("display"):
            shown = {"data": {"text/plain": "x" * int(code.split()[1])}, "metadata": {}, "transient": {}}
            self.publish("display_data", header, json.dumps(shown).encode())
        elif code.startswith("lines"):
            _, count, size, *_ = code.split()
            text = json.dumps({"name": "stdout", "text": ("x" * 99 + "\n") * (int(size) // 100)}).encode()
            for _ in range(int(count)):
                self.publish("stream", header, text)
        first, _, rest = code.partition(" ")
        if code.endswith("wait") or first == "tick":
            try:
                if code == "wait" or first == "tick":
                    self.publish("stream", header, b'{"name":"stdout","text":"waits"}')
                while code.endswith("wait"):
                    signal.pause()
                while True:
                    time.sleep(int(rest or 20) / 1e3)
                    self.publish("stream", header, b'{"name":"stdout","text":"tick"}')
            except KeyboardInterrupt:
                return b'{"status":"error","ename":"KeyboardInterrupt","evalue":"","traceback":[]}'
        return b'{"status":"ok","execution_count":%d,"user_expressions":{},"payload":[]}' % self.executions


INFO = {
    "status": "ok",
    "protocol_version": "5.3",
    "implementation": "fake",
    "implementation_version": "1",
    "language_info": {"name": "fake", "version": "1", "mimetype": "text/plain", "file_extension": ".txt"},
    "banner": "fake",
    "help_links": [],
}

if __name__ == "__main__":
    Kernel(sys.argv[sys.argv.index("-f") + 1]).serve()
    os._exit(0)
