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
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from floods import FLOODS, TOKENS, Servers, call, prepare


class Gateway:
    def __init__(self, binary, folder, servers):
        config = Path(folder, "himalia.toml")
        tenants = "".join(f"[tenants.{name}.tokens]\n{name} = \"{token}\"\n" for name, token in TOKENS.items())
        config.write_text(servers.settings(folder) + tenants)
        self.log = Path(folder, "log")
        argv = [binary, "serve", "--config", config, "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data"]
        argv += ["--run-dir", f"{folder}/r", "--isolation", "none", "--token", "the-token-of-the-operator", "--log", "warn", "--e2b"]
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


def low_priority():
    """Of this process, and of its session where the system weighs sessions."""
    os.nice(10)
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text("10")


def flood(name, port, context):
    """B's process: each line `on` or `off` begins or ends a flood; `off` is answered with the answers and refusals of it."""
    of, threads = FLOODS[name]
    once, on = of(context), threading.Event()
    counts = [0, 0]

    def run():
        while on.wait():
            try:
                status = once(port)
            except OSError:
                status = 0
            counts[not 200 <= status < 400] += 1

    low_priority()
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

    def __init__(self, name, port, context):
        argv = [sys.executable, __file__, "--flood", name, str(port), json.dumps(context)]
        # In a session of its own: where the system gives each session the same share of the processors (`sched_autogroup`), B's client
        # would take it from the gateway's and with it from A.
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)

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


def row(gateway, name, context, rounds):
    alone, beside, counts, cpu = [], [], [0, 0], [0.0, 0.0]
    with Flood(name, gateway.port, context) as flood:
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
    parser.add_argument("--only", default="", help="rows whose names contain one of these texts, which semicolons separate")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--flood", nargs=3, metavar=("NAME", "PORT", "CONTEXT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        name, port, context = options.flood
        return flood(name, int(port), json.loads(context))
    rows, servers = {}, Servers()
    with tempfile.TemporaryDirectory(prefix="hmf", dir="/tmp") as folder:
        gateway = Gateway(os.environ.get("HIMALIA_BIN", "target/release/himalia"), folder, servers)
        try:
            status, reply = gateway.call("a", "PUT", "/v1/sessions/work", {})
            assert status == 201, reply
            context = prepare(gateway.port, servers)
            measure(gateway, 2)
            columns = ("alone p50", "p99", "beside p50", "p99", "p99 ratio", "cpu alone", "cpu", "answered", "refused", "MiB")
            print(f"{'B does':28}" + "".join(f"{column:>11}" for column in columns))
            for name in FLOODS:
                if not any(text in name for text in options.only.split(";")):
                    continue
                found = row(gateway, name, context, options.rounds)
                print(f"{name:28}" + "".join(f"{value:11.2f}" if isinstance(value, float) else f"{value:11}" for value in found.values()), flush=True)
                rows[name] = found
        finally:
            gateway.stop()
            servers.close()
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
