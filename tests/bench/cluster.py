"""`make bench-cluster`: three replicas on Postgres and an object store against one gateway on SQLite and local files, in one run.

Prints a table and writes the same as JSON. Everything is on this machine: the gateways, Postgres (which syncs its log to the disk), the S3
server, the kernels and the clients share its cores. Only ratios and differences within the run mean something.
"""

import argparse
import contextlib
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import provenance
import run
import tables
from targets import HERE, Himalia, children, cpu_seconds, wait_until

sys.path.insert(0, str(HERE.parent / "python" / "support"))
from postgres import Postgres  # noqa: E402
from s3 import S3  # noqa: E402

LEASE_S = 5
TICK_MS = 100


class Cluster:
    """The services that replicas share."""

    def __enter__(self):
        self.services = contextlib.ExitStack()
        self.postgres = Postgres(durable=True)
        self.services.callback(self.postgres.stop)
        self.s3 = S3()
        self.services.callback(self.s3.stop)
        self.folder = Path(self.services.enter_context(tempfile.TemporaryDirectory(prefix="hbc-")))
        self.url = self.postgres.database()
        self.key = self.folder / "replicas.pem"
        options = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(self.key)]
        subprocess.run(["openssl", "genpkey", *options], check=True, capture_output=True)
        self.key.chmod(0o600)
        return self

    def cpu(self):
        """Of Postgres and the S3 server."""
        first = self.postgres.process.pid
        return cpu_seconds([first, *children(first), self.s3.process.pid])

    def __exit__(self, *_):
        self.services.close()


class Single(Himalia):
    name = "single"


class Replica(Himalia):
    """One of several gateways. Only the first starts a kernel for the rows that all targets have."""

    def __init__(self, cluster, name, has_kernel=False):
        self.cluster, self.name, self.has_kernel = cluster, name, has_kernel

    def start(self, binary=None):
        self.env |= {"HIMALIA_STORE": self.cluster.url, **self.cluster.s3.environment}
        self.options = [*Himalia.options, "--replica", self.name, "--lease", f"{LEASE_S}s", "--object-store", self.cluster.s3.url]
        self.options += ["--replica-listen", "127.0.0.1:0", "--replica-key", str(self.cluster.key)]
        super().start(binary)

    def first_client(self):
        if self.has_kernel:
            super().first_client()


class Scripted(Replica):
    """One that starts the kernels of the system tests, which need little memory."""

    def start(self, binary=None):
        folder = Path(self.folder, "jupyter", "kernels", "scripted")
        folder.mkdir(parents=True, exist_ok=True)
        argv = [os.environ["HIMALIA_SCRIPTED"], "-f", "{connection_file}"]
        folder.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "scripted", "language": "fake"}))
        super().start(binary)


class Relayed:
    """A client of one replica whose kernel is another's."""

    name = "relayed"

    def __init__(self, owner, other):
        self.owner, self.other = owner, other
        self.client = other.connect(owner.kernel_id)

    def cpu(self):
        return self.owner.cpu() + self.other.cpu()


def stream_row(targets, cluster, rounds, count, size):
    """A flood through one execute: MB/s, and processor time of gateways, shims and services for it."""
    runs = {target.name: [] for target in targets}
    for _ in range(rounds):
        for target in targets:
            before, services, start = target.cpu(), cluster.cpu(), time.perf_counter()
            seen = target.client.execute(f"flood {count} {size}")
            wall = time.perf_counter() - start
            runs[target.name].append((count * size / wall / 1e6, count - seen, target.cpu() - before, cluster.cpu() - services))
    row = {}
    for name, values in runs.items():
        rates, lost, cpu, services = zip(*values)
        row[name] = {"mb_per_s": statistics.median(rates), "lost": sum(lost), "cpu_s": statistics.median(cpu), "services_cpu_s": statistics.median(services)}
    return row


class Ticking:
    """Sessions that print all the time, each with a WebSocket at a replica; remembers when each message came."""

    def __init__(self, owner, at, count):
        self.sessions = [owner.call("POST", "/v1/sessions", {"template": "fake"})["id"] for _ in range(count)]
        self.clients = {session: at.connect(session) for session in self.sessions}
        self.at = {session: [] for session in self.sessions}
        self.failed = []
        for session in self.sessions:
            owner.call("POST", f"/v1/sessions/{session}/executions", {"code": f"tick {TICK_MS}", "background": True})
        self.ended = threading.Event()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        wait_until(lambda: all(self.at.values()), "all sessions to print", 120)

    def read(self):
        with selectors.DefaultSelector() as ready:
            for session, client in self.clients.items():
                ready.register(client.socket, selectors.EVENT_READ, (session, client))
            while not self.ended.is_set():
                for key, _ in ready.select(0.2):
                    session, client = key.data
                    try:
                        self.take(session, client)
                    except (OSError, ConnectionError) as error:
                        self.failed.append(f"{session}: {error}")
                        ready.unregister(client.socket)

    def take(self, session, client):
        """All messages that came; at least a part of one did."""
        client.fill()
        while len(client.buffer) - client.at >= 2:
            before = client.at
            opcode, payload = client.frame()
            assert client.at > before or not client.buffer
            if opcode == 9:
                client.send(10, payload)
            elif opcode == 8:
                raise ConnectionError(f"closed: {payload!r}")
            elif b'"stream"' in payload:
                self.at[session].append(time.monotonic())

    def pauses(self, since, until):
        """The longest time without a message of each session in an interval, in s."""
        found = []
        for times in self.at.values():
            inner = [since, *(at for at in times if since <= at <= until)]
            found.append(max(b - a for a, b in zip(inner, [*inner[1:], until])))
        return found

    def all_after(self, moment):
        """When each session was heard first after a moment; `None` if one was not."""
        firsts = [next((at for at in times if at > moment), None) for times in self.at.values()]
        return None if None in firsts else [at - moment for at in firsts]

    def stop(self):
        self.ended.set()
        self.reader.join()
        for client in self.clients.values():
            client.close()
        if self.failed:
            raise ConnectionError(f"{len(self.failed)} clients were cut: {self.failed[0]}")


def loss_row(owner, at, count):
    """kill -9 of the owner of sessions whose clients are at another replica: seconds until each was heard again, and until each answers."""
    ticking = Ticking(owner, at, count)
    owner.process.kill()
    owner.process.wait()
    killed = time.monotonic()
    wait_until(lambda: ticking.all_after(killed + 1), "all sessions to be heard again", 120)
    heard = ticking.all_after(killed + 1)
    for session in ticking.sessions:
        at.call("POST", f"/v1/sessions/{session}/interrupt")
    answers = [at.call("POST", f"/v1/sessions/{session}/executions", {"code": "pass"})["status"] for session in ticking.sessions]
    ticking.stop()
    if set(answers) != {"ok"}:
        raise ValueError(f"not all sessions answer: {answers}")
    heard = [1 + seconds for seconds in heard]
    return {"sessions": count, "lease_s": LEASE_S, "p50_s": statistics.median(heard), "all_s": max(heard)}


def handover_row(owner, at, count):
    """A planned end of the owner of sessions whose clients are at another replica: the longest silence of each, without a tick, in s."""
    ticking = Ticking(owner, at, count)
    time.sleep(2)
    start = time.monotonic()
    steady = ticking.pauses(start - 2, start)
    owner.process.send_signal(signal.SIGTERM)
    owner.process.wait(60)
    ended = time.monotonic()
    wait_until(lambda: ticking.all_after(ended), "all sessions to be heard again", 120)
    time.sleep(1)
    pauses = sorted(ticking.pauses(start, time.monotonic()))
    ticking.stop()
    return {
        "sessions": count,
        "steady_p50_s": statistics.median(steady),
        "p50_s": statistics.median(pauses),
        "p99_s": run.percentile(pauses, 0.99),
        "max_s": pauses[-1],
    }


def known_row(replica, count, active):
    """Sessions on one replica, a few of which print: memory of the gateway, and its processor time in percent of a core."""
    idle_rss = resident(replica.process.pid)
    sessions = []
    while len(sessions) < count:
        sessions.append(replica.call("POST", "/v1/sessions", {"template": "scripted"})["id"])
    settled = resident(replica.process.pid)
    before, start = cpu_seconds([replica.process.pid]), time.monotonic()
    time.sleep(20)
    idle = (cpu_seconds([replica.process.pid]) - before) / (time.monotonic() - start)
    busy = sessions[:active]
    before, start = cpu_seconds([replica.process.pid]), time.monotonic()
    for _ in range(3):
        for session in busy:
            replica.call("POST", f"/v1/sessions/{session}/executions", {"code": "print x"})
        time.sleep(5)
    used = (cpu_seconds([replica.process.pid]) - before) / (time.monotonic() - start)
    found = {"sessions": count, "active": active, "empty_mib": idle_rss, "mib": settled, "after_mib": resident(replica.process.pid), "idle_cpu_percent": 100 * idle, "active_cpu_percent": 100 * used}
    for session in sessions:
        replica.call("DELETE", f"/v1/sessions/{session}")
    return found


def resident(pid):
    """Memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=12_500, help="messages of the flood, of 8 kB each")
    parser.add_argument("--sessions", type=int, default=100, help="sessions whose owner is killed or ends")
    parser.add_argument("--known", type=int, default=2_000, help="sessions that a replica knows; a twentieth of them is active")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        single = stack.enter_context(Single())
        first, second, third = (stack.enter_context(Replica(cluster, f"r{number}", number == 0)) for number in range(3))
        targets = [single, first, Relayed(first, second)]
        first.name = "owner"
        run.execute_row(targets, 1, 50)  # warm-up, not counted
        report = {**provenance.about(), "execute": run.execute_row(targets, args.rounds, 200)}
        report["stream_count"] = args.messages
        report["stream"] = stream_row(targets, cluster, min(args.rounds, 3), args.messages, 8_000)
        report["handover"] = handover_row(first, second, args.sessions)
        report["loss"] = loss_row(second, third, args.sessions)
    if args.known:
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster())
            replica = stack.enter_context(Scripted(cluster, "r0"))
            report["known"] = known_row(replica, args.known, args.known // 20)
    print("\n" + tables.cluster(report))
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
