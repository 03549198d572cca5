"""`make crash-demo`: kill -9 of the gateway in the middle of a cell. Nothing is lost and nothing runs twice.

The cell counts how often it ran, and prints numbered lines. The reader follows the session's log and remembers only
the position of the last event that it saw.
"""

import argparse
import http.client
import sys
import time
from pathlib import Path

from gateway import Gateway, GatewayError
from kernel import Kernel
from terminal import bad, bold, dim, good, heading, say

ROOT = Path(__file__).resolve().parents[2]
LINES = 40
KILL_AT = 12
CELL = f"""
import time
runs = globals().get("runs", 0) + 1
for n in range(1, {LINES} + 1):
    print(f"run {{runs}} line {{n}}", flush=True)
    time.sleep(0.1)
"""


class Reader:
    """Follows one execution in a session's log."""

    def __init__(self, request):
        self.request = request
        self.position = 0
        self.lines = []
        self.reply = None
        self.idle = False

    def follow(self, gateway, session, until):
        """Read from the last position until `until()` holds; says whether it does. The connection may break before."""
        try:
            for position, event in gateway.events(session, self.position):
                self.position = position
                self._take(position, event)
                if until():
                    return True
        except (OSError, http.client.HTTPException):
            pass
        return until()

    def _take(self, position, event):
        if event["event"] == "gap":
            say(bad(f"  a gap in the log: {event}"))
        if (event.get("parent_header") or {}).get("msg_id") != self.request or event["event"] != "message":
            return
        kind, content = event["header"]["msg_type"], event["content"]
        if kind == "stream":
            for line in content["text"].splitlines():
                self.lines.append(line)
                say(f"  {dim(f'{position:>5}')}  {line}")
        elif kind == "execute_reply":
            self.reply = content["status"]
        elif kind == "status":
            self.idle = self.idle or content["execution_state"] == "idle"

    def done(self):
        """Whether both the reply and the idle status have come."""
        return self.reply is not None and self.idle


def main():
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description="Kill the gateway while a cell runs; nothing is lost, nothing runs twice.")
    parser.add_argument("--himalia", type=Path, default=ROOT / "target/quick/himalia", help="the gateway's program")
    options = parser.parse_args()
    try:
        with Gateway(options.himalia) as gateway:
            return show(gateway)
    except GatewayError as error:
        say(bad(f"crash-demo: {error}"))
        return 1
    except KeyboardInterrupt:
        say()
        return 130


def show(gateway):
    """The whole story."""
    say(f"gateway     {gateway.url}  (process {gateway.process.pid})")
    session = gateway.start_kernel()
    say(f"kernel      {session}")
    with Kernel(gateway, session) as kernel:
        reader = Reader(kernel.submit(CELL.strip()))
    heading(f"A cell prints {LINES} lines; the number at the left is the position in the log")
    reader.follow(gateway, session, lambda: len(reader.lines) >= KILL_AT)

    pid = gateway.process.pid
    gateway.kill()
    heading(f"kill -9 {pid}")
    say(f"  the reader stopped at position {reader.position}; the kernel continues to print without a reader")
    time.sleep(1.0)  # a moment without a gateway, so that there is something to miss
    seconds = gateway.start()
    say(good(f"  a new gateway answers (process {gateway.process.pid}) after {seconds:.2f} s"))

    heading(f"Resumed after position {reader.position}")
    deadline = time.monotonic() + 60
    while not reader.follow(gateway, session, reader.done) and time.monotonic() < deadline:
        pass
    return judge(gateway, session, reader)


def judge(gateway, session, reader):
    """Compare what was read with what was printed, and ask the kernel how often the cell ran."""
    runs = []
    with Kernel(gateway, session) as kernel:
        kernel.execute("print(runs)", lambda kind, content: runs.append(content.get("text", "").strip()))
    runs = "".join(runs)
    expected = [f"run 1 line {n}" for n in range(1, LINES + 1)]
    heading("Result")
    checks = [
        (reader.lines == expected, f"{len(set(reader.lines) & set(expected))} of {LINES} lines, each once, in order"),
        (reader.reply == "ok", "the reply to the cell arrived, from before the crash to after it"),
        (runs == "1", f"the kernel says the cell ran {runs} time{'' if runs == '1' else 's'}; its variables are alive"),
    ]
    for passed, text in checks:
        say(f"  {good('✓') if passed else bad('✗')} {text}")
    passed = all(passed for passed, _ in checks)
    say(bold(good("nothing lost, nothing ran twice") if passed else bad("the demo failed")))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
