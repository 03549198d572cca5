"""One script of requests, run on any server, and its transcript without what may differ: ids, times, paths."""

import json
import re
from pathlib import Path

from channels import Channels

# Content keys whose values are ids, times or process facts.
_VOLATILE = {"date", "started", "pid", "execution_time", "tmpFilePrefix", "hashSeed", "banner"}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")

WIDGET = """
import comm
def opened(channel, message):
    channel.send({"hello": message["content"]["data"]}, buffers=[b"\\x00\\xff\\x80", b""])
    @channel.on_msg
    def received(message):
        data = b"".join(bytes(b) for b in message["buffers"])
        channel.send({"echo": message["content"]["data"], "size": len(data)}, buffers=[data[::-1]])
comm.get_comm_manager().register_target("echo", opened)
"""

DISPLAY = """
from IPython.display import display, clear_output, update_display, HTML
display({"text/plain": "raw", "image/png": "iVBORw0KGgo="}, raw=True, metadata={"image/png": {"width": 5}})
display(HTML("<b>ünïcödé €</b>"), display_id="one")
update_display(HTML("<i>again</i>"), display_id="one")
clear_output(wait=True)
display({"application/json": {"big": 2**70, "float": 1e300, "text": "\\u2028 \\x07 😀"}}, raw=True)
"""


class Transcript:
    """Runs the script; `messages` has (channel, request number, type, content and the like) afterwards."""

    def __init__(self, server, kernel_id, framing):
        self.names = {}
        self.messages = []
        with Channels(server, kernel_id, framing) as self.client:
            self._wait_for_start()
            self._run(server, kernel_id)

    def _wait_for_start(self):
        """The first request may overlap the server's own handshake with the kernel."""
        self.client.request("kernel_info_request", {})

    def _note(self, message, number):
        content = self._stable(message["content"])
        # Our kernel's own addition, which plain ipykernel does not have.
        metadata = self._stable({key: value for key, value in message["metadata"].items() if key != "himalia"})
        entry = {
            "channel": message["channel"],
            "request": number,
            "type": message["msg_type"],
            "parent_type": message["parent_header"].get("msg_type"),
            "content": content,
            "metadata": metadata,
            "buffers": [buffer.hex() for buffer in message["buffers"]],
        }
        earlier = entry["type"] == "stream" and self._same_stream(number, content["name"])
        if earlier:
            earlier["content"]["text"] += content["text"]
        else:
            self.messages.append(entry)

    def _same_stream(self, number, name):
        """The message that more text belongs to: its cuts, and the order of two streams, are the kernel's timing."""
        for message in reversed(self.messages):
            if message["channel"] != "iopub":
                continue
            if message["type"] != "stream" or message["request"] != number:
                return None
            if message["content"]["name"] == name:
                return message
        return None

    def _stable(self, value):
        if isinstance(value, dict):
            # What kernels of ours tell in addition is theirs alone.
            shown = sorted((k, v) for k, v in value.items() if k != "himalia")
            return {k: "*" if k in _VOLATILE else self._stable(v) for k, v in shown}
        if isinstance(value, list):
            # Frames of libraries are shorter in tracebacks of kernels of ours.
            own = [item for item in value if not (isinstance(item, str) and "/site-packages/" in item)]
            return [self._stable(item) for item in own]
        if isinstance(value, str):
            value = _UUID.sub(lambda found: self.names.setdefault(found[0], f"<id {len(self.names)}>"), value)
            # IPython shortens what is below the home of the kernel, and the two servers have different ones.
            value = value.replace(f"{Path.home()}/", "~/")
            return re.sub(r"/tmp/ipykernel_\d+/", "/tmp/ipykernel/", value)
        return value

    def _do(self, number, kind, content, channel="shell", answer=None, **options):
        """One request until it is done; `answer` is sent to each `input_request`."""
        msg_id = self.client.send(kind, content, channel, **options)

        def on_message(message):
            if message["parent_header"].get("msg_id") == msg_id:
                self._note(message, number)
                if message["channel"] == "stdin":
                    self.client.send("input_reply", {"value": answer}, "stdin", parent=message["header"])

        self.client.outcome(msg_id, 60, on_message)

    def _execute(self, number, code, **more):
        answer = more.pop("answer", None)
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": answer is not None,
            "stop_on_error": True,
            **more,
        }
        self._do(number, "execute_request", content, answer=answer)

    def _run(self, server, kernel_id):
        run = self._execute
        self._do(1, "kernel_info_request", {})
        run(2, "x = 6 * 7\nx")
        run(3, "import sys\nfor n in range(3): print('out', n)\nprint('err', file=sys.stderr)\nprint('last', end='')")
        run(4, "def fail():\n    return 1 / 0\nfail()", user_expressions={"never": "1"})
        run(5, "y = x + 1", silent=True, store_history=False)
        run(6, "y", store_history=False, user_expressions={"a": "x", "b": "no_such_name"})
        run(7, DISPLAY)
        run(8, "name = input('who? '); print('hello', name)", answer="wörld \x04")
        run(9, "input('no answer? ')")
        run(10, "print(')('\n")
        self._do(11, "complete_request", {"code": "sys.getrecursion", "cursor_pos": 16})
        self._do(12, "inspect_request", {"code": "x", "cursor_pos": 1, "detail_level": 0})
        self._do(13, "is_complete_request", {"code": "for a in b:"})
        self._do(
            14,
            "history_request",
            {"hist_access_type": "range", "session": 0, "start": 2, "stop": 4, "raw": True, "output": False},
        )
        self._do(15, "comm_info_request", {})
        self._aborted(16)
        run(19, WIDGET)
        self._comm(20)
        self._do(23, "debug_request", {"type": "request", "seq": 1, "command": "debugInfo", "arguments": {}}, "control")
        self._do(24, "create_subshell_request", {}, "control")
        self._interrupted(25, server, kernel_id)
        run(26, "sys.exit", user_expressions={})
        self._do(27, "execute_request", {"code": "x"}, metadata={"cell": {"deep": [None, 1.5]}})

    def _aborted(self, number):
        """A failing cell aborts those that are queued behind it."""
        ids = [self.client.submit(code) for code in ("import time; time.sleep(0.3); raise KeyError('k')", "1", "2")]
        waiting = set(ids)
        idle = set()
        while waiting or len(idle) < 3:
            message = self.client.receive()
            parent = message["parent_header"].get("msg_id")
            if parent not in ids:
                continue
            self._note(message, number + ids.index(parent))
            if message["msg_type"] == "execute_reply":
                waiting.discard(parent)
            elif message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                idle.add(parent)

    def _comm(self, number):
        """A widget's traffic: buffers both ways."""
        comm_id = "c0ffee"
        steps = [
            ("comm_open", {"comm_id": comm_id, "target_name": "echo", "data": {"n": 1}}, []),
            ("comm_msg", {"comm_id": comm_id, "data": {"n": 2}}, [b"abc\x00", b"", bytes(range(256))]),
            ("comm_close", {"comm_id": comm_id, "data": {}}, []),
        ]
        for step, (kind, content, buffers) in enumerate(steps):
            msg_id = self.client.send(kind, content, buffers=buffers)
            idle = False
            while not idle:
                message = self.client.receive()
                if message["parent_header"].get("msg_id") == msg_id:
                    self._note(message, number + step)
                    idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"

    def _interrupted(self, number, server, kernel_id):
        """A cell is interrupted over REST once it has printed."""
        msg_id = self.client.submit("import time\nprint('started')\ntime.sleep(60)")

        def on_message(message):
            if message["parent_header"].get("msg_id") == msg_id:
                self._note(message, number)
                if message["msg_type"] == "stream":
                    server.interrupt(kernel_id)

        self.client.outcome(msg_id, 30, on_message)

    def by_channel(self):
        """The messages of each channel, in order, each as a line: order across channels is not promised."""
        lines = {}
        for message in self.messages:
            entry = dict(message)
            lines.setdefault(entry.pop("channel"), []).append(json.dumps(entry, sort_keys=True))
        return lines


def take(server, framing):
    """A transcript from a kernel of its own."""
    kernel_id = server.start_kernel()
    try:
        return Transcript(server, kernel_id, framing).by_channel()
    finally:
        server.delete_kernel(kernel_id)
