"""What the proxy of sandboxes costs: a download from loopback and new connections, against none and against Debian's tinyproxy.

The same client code runs in a session (through the proxy of its sandbox), and in a process here, which connects directly or through
tinyproxy. It has a tunnel and reads into one buffer, so that it costs little itself.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import provenance

TOKEN = "the-token-of-the-operator"
SIZE = 200 << 20

# Sends so many bytes, or one, to each client.
SERVER = """
import socket, sys, threading
data = memoryview(bytearray(1 << 20))
def serve(one):
    with one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while size := one.recv(64):
            left = int(size)
            while left > 0:
                left -= one.send(data[:min(left, len(data))])
listener = socket.create_server(("127.0.0.2", 0), backlog=256)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

CLIENT = """
import json, socket, time
def opened(proxy, port):
    if not proxy:
        return socket.create_connection(("127.0.0.2", port), 60)
    one = socket.create_connection(("127.0.0.1", proxy), 60)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.sendall(f"CONNECT 127.0.0.2:{port} HTTP/1.1\\r\\nHost: 127.0.0.2:{port}\\r\\n\\r\\n".encode())
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"):
        head += one.recv(1)
    assert b" 200 " in head.split(b"\\r\\n")[0], head
    return one
def download(proxy, port, size):
    buffer = memoryview(bytearray(1 << 20))
    with opened(proxy, port) as one:
        one.sendall(b"%-32d" % size)
        begun, left = time.perf_counter(), size
        while left > 0:
            count = one.recv_into(buffer)
            assert count
            left -= count
        return time.perf_counter() - begun
def connect(proxy, port, count):
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        with opened(proxy, port) as one:
            one.sendall(b"%-32d" % 1)
            assert one.recv(1)
        took.append(time.perf_counter() - begun)
    return took
"""


def processor(pids):
    """Seconds of processor time of processes so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def children(pid):
    """All descendants of a process that carry bytes: shims."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            for child in task.read_text().split():
                waiting.append(int(child))
                if Path(f"/proc/{child}/comm").read_text().strip() == "himalia-shim":
                    found.append(int(child))
    return found


class Direct:
    """No proxy."""

    name, proxy = "direct", 0

    def __init__(self, folder, port):
        self.port = port
        self.scope = {}
        exec(CLIENT, self.scope)

    def run(self, call):
        return eval(call, self.scope)

    def pids(self):
        return []

    def close(self):
        pass


class Tinyproxy(Direct):
    """Debian's, with nothing but what it needs."""

    name, proxy = "tinyproxy", 0

    def __init__(self, folder, port):
        super().__init__(folder, port)
        import socket

        with socket.create_server(("127.0.0.1", 0)) as free:
            self.proxy = free.getsockname()[1]
        config = Path(folder, "tinyproxy.conf")
        config.write_text(f"Port {self.proxy}\nListen 127.0.0.1\nMaxClients 100\nTimeout 600\nAllow 127.0.0.1\nLogLevel Critical\nLogFile \"{folder}/tinyproxy.log\"\n")
        self.process = subprocess.Popen(["tinyproxy", "-d", "-c", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.proxy), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("tinyproxy does not listen")

    def pids(self):
        return [self.process.pid]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Session:
    """A session that may reach the server."""

    name, proxy = "himalia", 3128

    def __init__(self, folder, port, text=None):
        config = Path(folder, "himalia.toml")
        reach = f'[templates.reach]\nkernelspec = "python3"\nisolation = "namespaces"\nnetwork = "allow"\nallow = ["127.0.0.2:{port}"]\n'
        config.write_text(text or reach)
        self.log = Path(folder, "log")
        argv = [os.environ["HIMALIA_BIN"], "serve", "--config", config, "--listen", "127.0.0.1:0", "--data-dir", f"{folder}/data", "--run-dir", f"{folder}/r"]
        argv += ["--private-address", f"127.0.0.2:{port}", "--token", TOKEN, "--log", "warn", "--on-sigterm", "stop"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", self.log.read_text())):
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit(f"the gateway does not serve:\n{self.log.read_text()}")
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{found[1]}/v1"
        self.id = self.call("/sessions", {"template": "reach"})["id"]
        if text is None:
            self.execute(CLIENT)

    def call(self, path, body):
        headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as reply:
            return json.load(reply)

    def execute(self, code):
        done = self.call(f"/sessions/{self.id}/executions?wait_s=100", {"code": code})
        assert done["status"] == "ok", done
        return done["text"]

    def run(self, call):
        return json.loads(self.execute(f"print(json.dumps({call}))"))

    def pids(self):
        return [self.process.pid, *children(self.process.pid)]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def measure(rounds=5, connections=100):
    """Speed, processor time per GB, and new connections, interleaved."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    wanted = [Direct, Session, *([Tinyproxy] if shutil.which("tinyproxy") else [])]
    with tempfile.TemporaryDirectory(prefix="himalia-bench-") as folder:
        targets = []
        try:
            for make in wanted:
                targets.append(make(folder, port))
            rows = {one.name: {"seconds": [], "cpu": [], "connect": []} for one in targets}
            for counted in [False, *[True] * rounds]:
                for one in targets:
                    before = processor(one.pids())
                    took = one.run(f"download({one.proxy}, {port}, {SIZE})")
                    used = processor(one.pids()) - before
                    connected = one.run(f"connect({one.proxy}, {port}, {connections})")
                    if counted:
                        rows[one.name]["seconds"].append(took)
                        rows[one.name]["cpu"].append(used)
                        rows[one.name]["connect"] += connected
        finally:
            for one in targets:
                one.close()
            server.kill()
            server.wait()
    return {
        name: {
            "mb_per_s": SIZE / 1e6 / statistics.median(row["seconds"]),
            "cpu_s_per_gb": statistics.median(row["cpu"]) * 1e9 / SIZE,
            "connect_p50_ms": statistics.median(row["connect"]) * 1e3,
        }
        for name, row in rows.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    import tables

    program = Path(os.environ["HIMALIA_BIN"]).resolve()
    report = {**provenance.about(), "program": os.path.relpath(program, provenance.ROOT), "network": measure(args.rounds)}
    print(tables.network(report))
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
