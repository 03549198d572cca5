"""`make bench-fairness`: what one tenant's floods cost another.

Tenant A asks for an execution, its result and two lists, again and again, while tenant B does one thing as fast as it can, and while it does
nothing: one second of each in turn, so that a slow machine is slow for both. Only the ratios mean something: p50 and p99 of A beside a flood
against A alone, the answers and refusals that B had, the processor time of the gateway for a second of each, and its memory. B runs in a process
of its own with a low priority, since clients share no processor with a gateway. Nothing but the standard library is used.
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TOKENS = {"a": "the-token-of-tenant-a-01", "b": "the-token-of-tenant-b-02"}
PRINT = "for _ in range(400): print('x' * 50_000)"
DISPLAY = "from IPython.display import display\nfor n in range(4): display({'application/x-bytes': 'x' * (6_000_000 + n)}, raw=True)"
CELLS = 300
"""Executions of B, so that its lists are long."""


def call(port, who, method, path, body=None, connection=None):
    """Status and body; a connection of its own unless one is given."""
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        headers = {"Authorization": f"token {TOKENS[who]}"}
        own.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = own.getresponse()
        return reply.status, reply.read()
    finally:
        if connection is None:
            own.close()


class Gateway:
    def __init__(self, binary, folder):
        config = Path(folder, "himalia.toml")
        tenants = "".join(f"[tenants.{name}.tokens]\n{name} = \"{token}\"\n" for name, token in TOKENS.items())
        config.write_text(tenants)
        self.log = Path(folder, "log")
        argv = [binary, "serve", "--config", config, "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        argv += ["--run-dir", f"{folder}/r", "--isolation", "none", "--token", "the-token-of-the-operator", "--log", "warn"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen([*argv, "--on-sigterm", "stop"], stdout=log, stderr=log)
        self.port = int(self.wait(lambda: re.search(r"http://127\.0\.0\.1:(\d+)", self.log.read_text())).group(1))

    def wait(self, look):
        until = time.monotonic() + 60
        while not (found := look()):
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit(f"the gateway does not serve:\n{self.log.read_text()}")
            time.sleep(0.05)
        return found

    def call(self, who, method, path, body=None, connection=None):
        return call(self.port, who, method, path, body, connection)

    def resident(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) // 1024

    def processor(self):
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def asking(path):
    """Asks for a body and reads it."""
    return lambda port: call(port, "b", "GET", path)[0]


def slow(path):
    """Asks for a body and takes a byte of it a second."""

    def once(port):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: token {TOKENS['b']}\r\n\r\n".encode())
            status = int(stream.recv(12).split()[1])
            for _ in range(5 if status == 200 else 0):
                stream.recv(1)
                time.sleep(1)
            return status

    return once


def greedy(path):
    """Asks for a body that does not end and reads as much of it as comes in a second."""

    def once(port):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: token {TOKENS['b']}\r\n\r\n".encode())
            status = int(stream.recv(12).split()[1])
            until = time.monotonic() + 1
            while status == 200 and time.monotonic() < until and stream.recv(1 << 20):
                pass
            return status

    return once


def churn(port):
    status, body = call(port, "b", "POST", "/v1/sessions", {})
    if status == 201:
        call(port, "b", "DELETE", f"/v1/sessions/{json.loads(body)['id']}")
    return status


FLOODS = {
    "notebooks, read slowly": (slow, "/v1/sessions/work/notebook.ipynb", 50),
    "artifacts, read slowly": (slow, "/v1/artifacts/{artifact}", 50),
    "polls of an execution": (asking, "/v1/executions/{execution}", 8),
    "pages of the history": (asking, "/v1/sessions/work/history?limit=100", 8),
    "clients of events, slow": (slow, "/v1/sessions/work/events?after=0", 200),
    "clients of events, fast": (greedy, "/v1/sessions/work/events?after=0", 20),
    "lists of executions": (asking, "/v1/sessions/work/executions", 8),
    "lists of ended sessions": (asking, "/v1/sessions?ended=true", 8),
    "sessions that come and go": (lambda _: churn, "", 4),
}


def flood(name, port, path):
    """B's process: each line `on` or `off` begins or ends a flood; `off` is answered with the answers and refusals of it."""
    how, _, threads = FLOODS[name]
    once, on = how(path), threading.Event()
    counts = [0, 0]

    def run():
        while on.wait():
            try:
                status = once(port)
            except OSError:
                status = 0
            counts[not 200 <= status < 400] += 1

    os.nice(10)
    for _ in range(threads):
        threading.Thread(target=run, daemon=True).start()
    for line in sys.stdin:
        if line.strip() == "on":
            counts[:] = 0, 0
            on.set()
        else:
            on.clear()
            print(*counts, flush=True)


class Flood:
    """B's process as A's sees it."""

    def __init__(self, name, port, path):
        argv = [sys.executable, __file__, "--flood", name, str(port), path]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def off(self):
        self.tell("off")
        return [int(count) for count in self.process.stdout.readline().split()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def measure(gateway, seconds):
    """Milliseconds of A's requests."""
    took, until = [], time.monotonic() + seconds
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
    while time.monotonic() < until:
        for method, path, body in (
            ("POST", "/v1/sessions/work/executions", {"code": "1 + 1"}),
            ("GET", "/v1/sessions/work/executions", None),
            ("GET", "/v1/sessions", None),
        ):
            begun = time.monotonic()
            status, reply = gateway.call("a", method, path, body, connection)
            took.append((time.monotonic() - begun) * 1000)
            if status >= 400:
                raise SystemExit(f"A was refused: {method} {path}: {status} {reply[:200]}")
        time.sleep(0.02)
    connection.close()
    return took


def shown(took):
    cuts = statistics.quantiles(took, n=100)
    return cuts[49], cuts[98]


def quiet(gateway):
    """Waits until the gateway has nothing left to do of a flood."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        before = gateway.processor()
        time.sleep(0.25)
        if gateway.processor() - before <= 0.01:
            return


def row(gateway, name, path, rounds):
    alone, beside, counts, cpu = [], [], [0, 0], [0.0, 0.0]
    with Flood(name, gateway.port, path) as flood:
        for _ in range(rounds):
            before = gateway.processor()
            alone += measure(gateway, 1)
            cpu[0] += gateway.processor() - before
            flood.tell("on")
            time.sleep(0.3)
            before = gateway.processor()
            beside += measure(gateway, 1)
            cpu[1] += gateway.processor() - before
            memory = gateway.resident()
            counts = [sum(pair) for pair in zip(counts, flood.off(), strict=True)]
            quiet(gateway)
    (p50, p99), (p50_alone, p99_alone) = shown(beside), shown(alone)
    return {
        "p50_alone_ms": p50_alone,
        "p99_alone_ms": p99_alone,
        "p50_ms": p50,
        "p99_ms": p99,
        "ratio": p99 / p99_alone,
        "cpu_alone": cpu[0] / rounds,
        "cpu": cpu[1] / rounds,
        "answers": counts[0],
        "refusals": counts[1],
        "mib": memory,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10, help="of each row: a second alone and a second beside the flood")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--flood", nargs=3, metavar=("NAME", "PORT", "PATH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        name, port, path = options.flood
        return flood(name, int(port), path)
    rows = {}
    with tempfile.TemporaryDirectory(prefix="hmf", dir="/tmp") as folder:
        gateway = Gateway(os.environ.get("HIMALIA_BIN", "target/release/himalia"), folder)
        try:
            for who in TOKENS:
                status, reply = gateway.call(who, "PUT", "/v1/sessions/work", {})
                assert status == 201, reply
            status, ran = gateway.call("b", "POST", "/v1/sessions/work/executions", {"code": PRINT})
            assert status < 300, ran
            execution = json.loads(ran)["id"]
            _, ran = gateway.call("b", "POST", "/v1/sessions/work/executions", {"code": DISPLAY})
            data = json.loads(ran)["outputs"][0]["data"]
            artifact = next(iter(data.values()))["artifact"]
            for _ in range(CELLS):
                while gateway.call("b", "POST", "/v1/sessions/work/executions", {"code": "1 + 1"})[0] == 429:
                    time.sleep(0.5)
            measure(gateway, 2)
            columns = ("alone p50", "p99", "beside p50", "p99", "p99 ratio", "cpu alone", "cpu", "answered", "refused", "MiB")
            print(f"{'B does':28}" + "".join(f"{column:>11}" for column in columns))
            for name, (_, path, _) in FLOODS.items():
                if options.only not in name:
                    continue
                found = row(gateway, name, path.format(artifact=artifact, execution=execution), options.rounds)
                print(f"{name:28}" + "".join(f"{value:11.2f}" if isinstance(value, float) else f"{value:11}" for value in found.values()), flush=True)
                rows[name] = found
        finally:
            gateway.stop()
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
