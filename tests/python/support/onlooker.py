"""A Jupyter client that is attached to a kernel and notes every cell that any client runs there, with its outputs."""

import threading
from dataclasses import dataclass, field

from channels import Channels
from waiting import eventually
from websockets.exceptions import ConnectionClosed


@dataclass
class Cell:
    """What the client saw of one cell."""

    code: str
    streams: dict = field(default_factory=dict)
    data: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    ended: bool = False

    def texts(self):
        """The `text/plain` of displays and results."""
        return [data.get("text/plain") for data in self.data]


class Onlooker:
    """Reads in a separate thread. `attach` again, after the gateway was away, continues where it was."""

    def __init__(self, server, kernel_id):
        self.server, self.kernel_id, self.session = server, kernel_id, None
        self.messages = []
        self.attach()

    def attach(self):
        """Connect, as the same client as before."""
        # What came just before the gateway was killed may come again; on one connection nothing comes twice.
        self.earlier = {message["msg_id"] for message in self.messages}
        self.channels = Channels(self.server, self.kernel_id, session=self.session)
        self.session = self.channels.session
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        try:
            while True:
                message = self.channels.receive(600)
                if message["msg_id"] not in self.earlier:
                    self.messages.append(message)
        except ConnectionClosed:
            pass

    def cut(self):
        """Wait until the server's end of the connection is gone."""
        self.reader.join(60)
        assert not self.reader.is_alive()

    def close(self):
        """Leave."""
        self.channels.socket.close()
        self.cut()

    def run(self, code):
        """Run a cell as this client, and wait for its end."""
        msg_id = self.channels.submit(code)
        eventually(lambda: self.replied(msg_id), "the reply", 60)
        return self.cell(code)

    def replied(self, msg_id):
        """Whether the reply to a request of this client came."""
        return any(
            m["msg_type"] == "execute_reply" and m["parent_header"].get("msg_id") == msg_id for m in list(self.messages)
        )

    def cells(self):
        """All cells in the order in which they began."""
        cells = {}
        for message in list(self.messages):
            parent = (message["parent_header"] or {}).get("msg_id")
            kind, content = message["msg_type"], message["content"]
            if kind == "execute_input":
                assert parent not in cells, "a cell began twice"
                cells[parent] = Cell(content["code"])
            if message["channel"] != "iopub" or parent not in cells:
                continue
            cell = cells[parent]
            if kind == "stream":
                cell.streams[content["name"]] = cell.streams.get(content["name"], "") + content["text"]
            elif kind in ("display_data", "execute_result"):
                cell.data.append(content["data"])
            elif kind == "error":
                cell.errors.append((content["ename"], content["evalue"]))
            elif kind == "status" and content["execution_state"] == "idle":
                cell.ended = True
        return list(cells.values())

    def cell(self, code):
        """The latest cell with this code, once all of it was seen."""

        def seen():
            found = [cell for cell in self.cells() if cell.code == code and cell.ended]
            return found and found[-1]

        return eventually(seen, f"the Jupyter client sees the cell {code[:40]!r}", 60)

    def characters(self):
        """Of all text and data that came."""
        return sum(
            len(str(value))
            for cell in self.cells()
            for value in (*cell.streams.values(), *(part for data in cell.data for part in data.values()), *cell.errors)
        )
