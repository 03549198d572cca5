"""`make cluster-demo`: three replicas as pods, a staged analysis through all of them, and the loss of the owner in the middle of a cell."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from replica_pods import ReplicaPods, follow  # noqa: E402

LINES = 40
CELL = f"import time\nfor n in range({LINES}):\n    print('line', n, flush=True)\n    time.sleep(0.25)\ntotal + 1"


def say(text):
    """A line of the demo, with the time since its start."""
    print(f"{time.monotonic() - BEGAN:6.1f} s  {text}", flush=True)


def run(client, session, code):
    """The text of a cell that has ended."""
    reply = client.post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": 60}).raise_for_status().json()
    assert reply["status"] == "ok", reply
    return reply["text"].strip()


class Watcher:
    """Shows the lines of a cell as they come, and kills the owner of its session after some of them."""

    def __init__(self, replicas, session):
        self.replicas, self.session = replicas, session
        self.lines, self.killed, self.pause, self.last = [], None, 0.0, time.monotonic()

    def line(self, line):
        """One more."""
        if not line.startswith("line "):
            return
        now = time.monotonic()
        if self.killed:
            self.pause = max(self.pause, now - self.last)
        self.last = now
        self.lines.append(line)
        say(f"  {line}")
        if len(self.lines) == LINES // 4:
            self.killed = self.replicas.owner(self.session)
            self.replicas.kill(self.killed)
            say(f"{self.killed}, which has the session, is killed with kill -9, and its pod is gone")


def main():
    """Runs it."""
    replicas = ReplicaPods()
    try:
        names = sorted(replicas.ready())
        say(f"three replicas are ready: {', '.join(names)}")
        with replicas.client(names[0]) as first, replicas.client(names[1]) as second:
            session = first.post("v1/sessions", json={"template": "python3", "name": "analysis"}).raise_for_status().json()["id"]
            say(f"session {session} is at {replicas.owner(session)}, in a pod of its own")
            run(first, session, "data = [n * n for n in range(1000)]")
            say(f"through {names[0]}: data is loaded")
            run(second, session, "total = sum(data)")
            say(f"through {names[1]}: total = {run(second, session, 'print(total)')}")
            started = second.post(f"v1/sessions/{session}/executions", json={"code": CELL, "background": True})
            execution = started.raise_for_status().json()
        watcher = Watcher(replicas, session)
        with replicas.client(names[1]) as second:
            result = follow(second, execution["id"], watcher.line)
        say(f"the cell has ended: {result['status']}, {len(watcher.lines)} lines; the longest pause was {watcher.pause:.1f} s")
        assert watcher.lines == [f"line {n}" for n in range(LINES)], "lost or twice"
        assert result["status"] == "ok" and "332833501" in str(result), result
        say(f"nothing is lost, nothing ran twice; {replicas.owner(session)} has the session now, and its variables are there")
    finally:
        replicas.stop()


BEGAN = time.monotonic()
main()
