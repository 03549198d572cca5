"""Three replicas lose processes, their database and their object store at random; what clients saw is compared with what kernels did.

Each session has one client that executes, one cell after the other, and one that follows the log, both at any replica that answers. Cell
`n` adds a line to a file and prints the same line. The file says what ran; the followers say what was seen: all of it, in order, once.

The actions follow from a seed, which a failure prints. `HIMALIA_CHAOS_SESSIONS`, `_ROUNDS` and `_SEED` change a run; `make test-chaos` is
a long one.
"""

import contextlib
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from ports import free_ports
from postgres import Postgres
from processes import having_argument, parent
from replicas import Replicas
from s3 import S3
from slow_link import SlowLink
from waiting import eventually

SESSIONS = int(os.environ.get("HIMALIA_CHAOS_SESSIONS", "10"))
ROUNDS = int(os.environ.get("HIMALIA_CHAOS_ROUNDS", "12"))
SEED = int(os.environ.get("HIMALIA_CHAOS_SEED") or 0) or random.SystemRandom().randrange(1, 1 << 32)
LEASE_S = 3
BUSY = (httpx.HTTPError, ConnectionError)


class Cluster:
    """The replicas and the services that they share, and what can happen to them. One action at a time."""

    def __init__(self, directory):
        self.kernel, kernelspecs = scripted(directory)
        self.stack = contextlib.ExitStack()
        self.postgres = Postgres()
        self.stack.callback(self.postgres.stop)
        self.s3 = S3()
        self.stack.callback(self.s3.stop)
        ports = free_ports(3)
        self.links = [SlowLink(port) for port in (self.postgres.port, self.s3.port, *ports)]
        for link in self.links:
            self.stack.callback(link.close)
        to_postgres, to_s3, *to_replicas = self.links
        relays = [(port, link.port) for port, link in zip(ports, to_replicas)]
        env = {**self.s3.environment, "AWS_ENDPOINT": f"http://127.0.0.1:{to_s3.port}", "JUPYTER_PATH": str(kernelspecs)}
        options = ("--object-store", self.s3.url, "--max-kernels", "200")
        self.replicas = Replicas(directory, self.postgres, 3, *options, lease=f"{LEASE_S}s", relays=relays, env=env, port=to_postgres.port)

    def one(self, chance):
        return chance.choice(self.replicas.all)

    def kill(self, chance):
        """kill -9; it comes back before or after its lease has ended."""
        replica = self.one(chance)
        replica.kill()
        time.sleep(chance.choice([0, LEASE_S / 2, 2 * LEASE_S]))
        replica.start()

    def stop(self, chance):
        """A planned stop and a start."""
        replica = self.one(chance)
        replica.process.send_signal(signal.SIGTERM)
        assert replica.process.wait(60) == 0
        replica.process.stdout.close()
        replica.start()

    def pause(self, chance):
        """SIGSTOP for longer than a lease: it may not continue."""
        replica = self.one(chance)
        replica.process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S + 2)
        replica.process.send_signal(signal.SIGCONT)
        assert replica.process.wait(30) == 1, "a replica continues although its lease has ended"
        replica.process.stdout.close()
        replica.start()

    def pause_shortly(self, chance):
        """SIGSTOP for less than half a lease: nothing happens."""
        replica = self.one(chance)
        replica.process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S / 4)
        replica.process.send_signal(signal.SIGCONT)

    def cut(self, chance):
        """All connections to the database, to the object store, or of the others to a replica, are reset."""
        chance.choice(self.links).cut()

    def slow(self, chance):
        """All that goes to the database, the object store or a replica from the others, or comes from it, comes late."""
        link = chance.choice(self.links)
        link.slow(0.05)
        time.sleep(LEASE_S)
        link.slow(0)

    def pause_shims(self, chance):
        """A tenth of the shims is stopped for longer than a lease: their connections carry nothing."""
        shims = sorted(parent(pid) for pid in having_argument(str(self.kernel)))
        some = chance.sample(shims, max(1, len(shims) // 10))
        for pid in some:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(LEASE_S + 1)
        for pid in some:
            os.kill(pid, signal.SIGCONT)

    def stall(self, chance):
        """The database is not reached for longer than a lease: all replicas end."""
        to_postgres = self.links[0]
        to_postgres.slow(LEASE_S + 1)
        for replica in self.replicas.all:
            assert replica.process.wait(60) == 1, "a replica continues although its lease has ended"
            replica.process.stdout.close()
        to_postgres.slow(0)
        for replica in self.replicas.all:
            replica.start()

    def crash(self, chance):
        """The database ends and recovers, within half a lease."""
        self.postgres.kill()
        self.postgres.start()

    def objects(self, chance):
        """The object store is away."""
        self.s3.kill()
        time.sleep(chance.choice([1, LEASE_S]))
        self.s3.start()

    def restart_ended(self):
        """What a service manager does with those that have ended because they could not renew their lease."""
        for replica in self.replicas.all:
            if replica.process.poll() is not None:
                assert replica.process.returncode == 1 and "ends, because" in replica.log.read_text(), replica.log.read_text()[-2000:]
                replica.process.stdout.close()
                replica.start()

    def close(self):
        with self.stack:
            self.replicas.stop()


ACTIONS = ["kill", "kill", "kill", "stop", "stop", "pause", "pause_shortly", "cut", "cut", "slow", "slow", "pause_shims", "stall", "crash", "objects"]


class Session:
    """One session, who executes on it, and who follows it."""

    def __init__(self, cluster, number, directory, ended):
        self.cluster, self.ended = cluster, ended
        self.chance = random.Random(f"{SEED}-{number}")
        self.file = directory / f"{number}"
        self.id = self.call("POST", "v1/sessions", {"template": "scripted"})["id"]
        self.ran, self.seen, self.seqs, self.failure = 0, [], [], None
        self.threads = [threading.Thread(target=self.guard, args=(work,)) for work in (self.execute, self.follow)]
        self.no_more = threading.Event()
        for thread in self.threads:
            thread.start()

    def guard(self, work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            self.failure = f"{work.__name__}: {error!r}"

    def call(self, method, path, body=None):
        """A response of any replica; what is not done yet is asked again, of another one."""
        for _ in range(600):
            replica = self.chance.choice(self.cluster.replicas.all) if hasattr(self, "chance") else self.cluster.replicas[0]
            try:
                reply = replica.http.request(method, path, json=body, timeout=30)
            except BUSY:
                time.sleep(0.1)
                continue
            if reply.status_code < 300:
                return reply.json() if reply.content else None
            if reply.status_code not in (429, 503):
                raise AssertionError(f"{method} {path} at {replica.name}: {reply.status_code} {reply.text}")
            time.sleep(0.1)
        raise AssertionError(f"{method} {path}: no replica answers")

    def execute(self):
        while not self.ended.is_set():
            line = f"{self.id} {self.ran}"
            body = {"code": f"append {self.file} {line}\nprint {line}", "idempotency_key": line, "wait_s": 10}
            found = self.call("POST", f"v1/sessions/{self.id}/executions", body)
            while found["status"] in ("queued", "running"):
                found = self.call("GET", f"v1/executions/{found['id']}?wait_s=10")
            assert found["status"] == "ok" and found["text"] == line + "\n", f"{line}: {json.dumps(found)[:500]}"
            self.ran += 1

    def follow(self):
        """The log, from where the last stream ended, until the last cell was seen."""
        while not (self.no_more.is_set() and len(self.seen) >= self.ran):
            replica = self.chance.choice(self.cluster.replicas.all)
            headers = {"Last-Event-ID": str(self.seqs[-1] if self.seqs else 0)}
            try:
                with replica.http.stream("GET", f"v1/sessions/{self.id}/events", headers=headers, timeout=30) as reply:
                    if reply.status_code != 200:
                        time.sleep(0.1)
                        continue
                    self.read(reply)
            except BUSY:
                time.sleep(0.1)

    def read(self, reply):
        position = None
        for text in reply.iter_lines():
            if text.startswith("id:"):
                position = int(text[3:])
            elif text.startswith("data:") and position is not None:
                self.take(position, json.loads(text[5:]))
                position = None
            if self.no_more.is_set() and len(self.seen) >= self.ran:
                return

    def take(self, position, event):
        assert event["event"] != "gap", event
        self.seqs.append(position)
        if event["event"] == "message" and event["header"]["msg_type"] == "stream":
            self.seen.extend(event["content"]["text"].splitlines())

    def finish(self):
        """The last cell has ended; a stream that waits for more ends with its next keep-alive."""
        self.threads[0].join(120)
        self.no_more.set()

    def check(self):
        """After the last cell: what ran, and what was seen, is what was executed."""
        self.threads[1].join(120)
        assert not any(thread.is_alive() for thread in self.threads), f"{self.id}: a client waits; {self.ran} cells, {len(self.seen)} lines"
        assert self.failure is None, self.failure
        lines = [f"{self.id} {number}" for number in range(self.ran)]
        assert self.file.read_text().splitlines() == lines, f"{self.id}: what ran is not what was executed"
        assert self.seen == lines, f"{self.id}: what was seen is not what was executed"
        assert self.seqs == sorted(set(self.seqs)), f"{self.id}: positions are not in order"


def scripted(directory):
    """The kernel of the system tests under a path that no other test has, and a Jupyter path with it."""
    folder = directory / "jupyter" / "kernels" / "scripted"
    folder.mkdir(parents=True)
    kernel = folder / "kernel"
    kernel.symlink_to(os.environ["HIMALIA_SCRIPTED"])
    argv = [str(kernel), "-f", "{connection_file}"]
    folder.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": "scripted", "language": "fake"}))
    return kernel, directory / "jupyter"


@pytest.mark.timeout(SESSIONS * 10 + ROUNDS * 60 + 300)
def test_nothing_is_lost_and_nothing_runs_twice(tmp_path):
    print(f"HIMALIA_CHAOS_SEED={SEED}")
    chance, ended = random.Random(SEED), threading.Event()
    directory = Path(tmp_path, "ran")
    directory.mkdir()
    cluster = Cluster(tmp_path)
    sessions = []
    done = []
    try:
        sessions += [Session(cluster, number, directory, ended) for number in range(SESSIONS)]
        for _ in range(ROUNDS):
            action = chance.choice(ACTIONS)
            done.append(action)
            getattr(cluster, action)(chance)
            # Work continues in between: each session executes again.
            before = [session.ran for session in sessions]

            def all_execute(before=before):
                cluster.restart_ended()
                return all(session.ran > ran or session.failure for session, ran in zip(sessions, before))

            eventually(all_execute, f"all sessions execute after {done}", 60)
            failures = [session.failure for session in sessions if session.failure]
            assert not failures, f"after {done}: {failures}"
        ended.set()
        for session in sessions:
            session.finish()
        for session in sessions:
            session.check()
        cluster.restart_ended()
        cells = sum(session.ran for session in sessions)
        print(f"{len(done)} actions, {len(sessions)} sessions, {cells} cells: {', '.join(f'{done.count(a)} {a}' for a in sorted(set(done)))}")
        assert cells >= SESSIONS * ROUNDS
        for session in sessions:
            session.call("DELETE", f"v1/sessions/{session.id}")
    finally:
        ended.set()
        for session in sessions:
            session.no_more.set()
        cluster.close()
