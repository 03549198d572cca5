"""`make bench-cluster`: three replicas on Postgres and an object store against one gateway on SQLite and local files, in one run.

Prints a table and writes the same as JSON, in which rows that are not measured now stay as they are. Everything is on this machine: the gateways, Postgres (which syncs its log to the disk), the S3
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

import burst
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

    def stored(self):
        """Rows and bytes of tables, and of the object store."""
        tables = ("kernels", "logs", "log_parts", "log_segments")
        counts = {f"{name}_rows": int(self.postgres.sql(self.url, f"SELECT count(*) FROM himalia.{name}")[0]) for name in tables}
        size = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relnamespace = 'himalia'::regnamespace AND c.relkind = 'r'"
        return counts | {"database_bytes": int(self.postgres.sql(self.url, size)[0]), "objects": len(self.s3.objects())}

    def commits(self):
        """Transactions of the database so far, but for what Postgres has not counted yet: its statistics lag by a second."""
        time.sleep(2)
        return int(self.postgres.sql(self.url, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")[0])

    def __exit__(self, *_):
        self.services.close()


class Single(Himalia):
    name = "single"


class Replica(Himalia):
    """One of several gateways. Only the first starts a kernel for the rows that all targets have."""

    lease_s = LEASE_S

    def __init__(self, cluster, name, has_kernel=False):
        self.cluster, self.name, self.has_kernel = cluster, name, has_kernel

    def start(self, binary=None):
        self.env |= {"HIMALIA_STORE": self.cluster.url, **self.cluster.s3.environment}
        self.options = [*self.own_options(), "--replica", self.name, "--lease", f"{self.lease_s}s", "--object-store", self.cluster.s3.url]
        self.options += ["--replica-listen", "127.0.0.1:0", "--replica-key", str(self.cluster.key)]
        super().start(binary)

    def own_options(self):
        return Himalia.options

    def first_client(self):
        if self.has_kernel:
            super().first_client()


class Scripted(Replica):
    """One that starts the kernels of the system tests, which need little memory."""

    # Thousands of processes on a small machine delay its renewal.
    lease_s = 30

    def __init__(self, cluster, name, kernels):
        super().__init__(cluster, name)
        self.kernels = kernels

    def start(self, binary=None):
        folder = Path(self.folder, "jupyter", "kernels", "scripted")
        folder.mkdir(parents=True, exist_ok=True)
        argv = [os.environ["HIMALIA_SCRIPTED"], "-f", "{connection_file}"]
        folder.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "scripted", "language": "fake"}))
        super().start(binary)


    def own_options(self):
        return ["--isolation", "none", "--max-kernels", str(self.kernels), "--run-dir", f"{self.folder}/run"]

    def __exit__(self, *_):
        """At once: to end thousands of sessions one by one would take longer than to measure them."""
        if hasattr(self, "process"):
            for pid in [self.process.pid, *descendants(self.process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        super().__exit__()


def descendants(pid):
    """All processes below one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            number = int(entry.name)
            parents.setdefault(int((entry / "stat").read_text().rpartition(")")[2].split()[1]), []).append(number)
    below, next_ones = [], list(parents.get(pid, []))
    while next_ones:
        one = next_ones.pop()
        below.append(one)
        next_ones += parents.get(one, [])
    return below


class Pods(Replica):
    """One whose sandboxes are pods of the contract server, with a pool of them."""

    lease_s = 30

    def __init__(self, cluster, name, pods, size):
        super().__init__(cluster, name)
        self.pods, self.size = pods, size

    def own_options(self):
        return ["--config", str(self.config), "--max-kernels", "1000"]

    def start(self, binary=None):
        folder = Path(self.folder, "jupyter", "kernels", "pod")
        folder.mkdir(parents=True, exist_ok=True)
        kernel = {"argv": ["/opt/fake-kernel", "-f", "{connection_file}"], "display_name": "pod", "language": "fake", "metadata": {"himalia": {"late_bind": True}}}
        folder.joinpath("kernel.json").write_text(json.dumps(kernel))
        self.config = Path(self.folder, "himalia.toml")
        self.config.write_text(
            f'[kubernetes]\nnamespace = "kernels"\nkubeconfig = "{self.pods.kubeconfig}"\nimage = "kernel:1"\nagent_image = "agent:1"\n'
            f'authority_keys = ["{self.cluster.key}"]\n[templates.warm]\nkernelspec = "pod"\n'
            f"[templates.warm.pool]\nsize = {self.size}\nmax = {self.size}\n"
        )
        super().start(binary)

    def ready(self):
        """Pods that wait here."""
        return self.call("GET", "/v1/pools")["pools"][0]["ready"]


class ContractServer:
    """The API server of the system tests with its node, which runs pods as jailed processes with a real shim."""

    def __enter__(self):
        programs = Path(os.environ["HIMALIA_SCRIPTED"]).parent
        argv = [programs / "himalia-test-cluster", "--shim", programs / "himalia-shim", "--kernel", os.environ["HIMALIA_SCRIPTED"]]
        argv += ["--package", HERE.parents[1] / "kernelspecs" / "python3"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.kubeconfig = json.loads(self.process.stdout.readline())["kubeconfig"]
        return self

    def counts(self):
        """Requests so far by method, and `changes` of objects."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)


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
        self.gateway = at
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
        # They would print on while the next row is measured, and are children of a replica that is gone.
        for session in self.sessions:
            self.gateway.call("DELETE", f"/v1/sessions/{session}")
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


def known_row(cluster, replica, count, active):
    """Sessions on one replica, a few of which execute: memory of the gateway, its processor time in percent of a core, and what they are in
    the store."""
    pid = replica.process.pid
    empty, stored = resident(pid), cluster.stored()
    sessions = [replica.call("POST", "/v1/sessions", {"template": "scripted"})["id"] for _ in range(count)]
    # Starts and the first look at what they have used end.
    time.sleep(20)
    mib = resident(pid)
    idle = busy_part(pid, lambda: time.sleep(30))
    rows = {name: (value - stored[name]) / count for name, value in cluster.stored().items()}

    def rounds():
        for _ in range(6):
            until = time.monotonic() + 5
            for session in sessions[:active]:
                replica.call("POST", f"/v1/sessions/{session}/executions", {"code": "print x"})
            time.sleep(max(0, until - time.monotonic()))

    commits = cluster.commits()
    used = busy_part(pid, rounds)
    found = {
        "sessions": count,
        "active": active,
        "empty_mib": empty,
        "mib": mib,
        "after_mib": resident(pid),
        "idle_cpu_percent": 100 * idle,
        "active_cpu_percent": 100 * used,
        "executions_per_s": active / 5,
        "commits_per_execution": (cluster.commits() - commits) / (6 * active),
        "per_session": rows,
    }
    return found


def busy_part(pid, work):
    """The part of a core that a process uses meanwhile."""
    before, start = cpu_seconds([pid]), time.monotonic()
    work()
    return (cpu_seconds([pid]) - before) / (time.monotonic() - start)


def claims_row(pods, replica, singles, at_once, rounds):
    """Starts from a pool of pods: ms from the request to its response, one after the other and many at once; requests of the gateway to the API
    server for each claim, and for each pod from its start to its end."""
    size = replica.size

    def full():
        wait_until(lambda: replica.ready() == size, "the pool to be full", 300)

    def claim(count):
        claims = [burst.Asked(replica.port, "warm") for _ in range(count)]
        for one in claims:
            one.ask()
        took, waiting = [], {one.socket: (one, b"") for one in claims}
        with selectors.DefaultSelector() as ready:
            for one in claims:
                ready.register(one.socket, selectors.EVENT_READ)
            while waiting:
                for key, _ in ready.select(60):
                    one, data = waiting[key.fileobj]
                    part = key.fileobj.recv(1 << 16)
                    waiting[key.fileobj] = (one, data + part)
                    if not part:
                        took.append(time.perf_counter() - one.at)
                        ready.unregister(key.fileobj)
                        del waiting[key.fileobj]
                        key.fileobj.close()
                        sessions.append(session_of(data))
        return took

    def session_of(data):
        head, _, body = data.partition(b"\r\n\r\n")
        session = json.loads(body)
        if b" 201 " not in head.split(b"\r\n")[0] or session["started_by"] != "pool":
            raise ValueError(f"no claim: {head!r} {body!r}")
        return session["id"]

    def end():
        while sessions:
            replica.call("DELETE", f"/v1/sessions/{sessions.pop()}")

    sessions, one, many = [], [], []
    full()
    for _ in range(singles):
        one += claim(1)
        end()
        full()
    steady = pods.counts()
    for _ in range(rounds):
        many += claim(at_once)
        end()
        full()
    life = {name: (value - steady[name]) / len(many) for name, value in pods.counts().items() if name != "pods"}
    return {
        "singles": len(one),
        "p50_ms": 1e3 * statistics.median(one),
        "p99_ms": 1e3 * run.percentile(sorted(one), 0.99),
        "at_once": at_once,
        "rounds": rounds,
        "burst_p50_ms": 1e3 * statistics.median(many),
        "burst_p99_ms": 1e3 * run.percentile(sorted(many), 0.99),
        "per_claim": claim_requests(pods, claim, end, full),
        "per_pod": life,
    }


def claim_requests(pods, claim, end, full):
    """Requests to the API server while pods are claimed, before others take their places: there is a pause after each claim."""
    before = pods.counts()
    claim(1)
    found = {name: value - before[name] for name, value in pods.counts().items() if name != "pods"}
    end()
    full()
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
    parser.add_argument("--claims", type=int, default=50, help="claims at once from a pool of pods")
    parser.add_argument("--rows", default="base,known,claims", help="which to measure: `base` is execute, stream, handover and loss")
    args = parser.parse_args()
    report, rows = {}, args.rows.split(",")
    if "base" in rows:
        report |= base_rows(args)
    if "known" in rows:
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster())
            replica = stack.enter_context(Scripted(cluster, "r0", args.known + 100))
            report["known"] = {"commit": provenance.about()["commit"], **known_row(cluster, replica, args.known, args.known // 20)}
    if "claims" in rows:
        with contextlib.ExitStack() as stack:
            cluster = stack.enter_context(Cluster())
            pods = stack.enter_context(ContractServer())
            replica = stack.enter_context(Pods(cluster, "r0", pods, args.claims))
            report["claims"] = {"commit": provenance.about()["commit"], **claims_row(pods, replica, 40, args.claims, 4)}
    if args.out and args.out.exists():
        report = json.loads(args.out.read_text()) | report
    if "base" in rows or args.out:
        print("\n" + tables.cluster(report))
    else:
        print(json.dumps(report, indent=1))
    if args.out:
        provenance.write(report, args.out)


def base_rows(args):
    """Those that compare three replicas with one gateway."""
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
    return report


if __name__ == "__main__":
    main()
