"""Many claims at once: how long each takes, and whether they are served in the order in which they were asked."""

import concurrent.futures
import itertools
import json
import socket
import sqlite3
import time

from targets import TOKEN


class Asked:
    """A claim on a connection of its own, whose response is not read yet."""

    def __init__(self, port, template):
        body = json.dumps({"template": template})
        self.request = (
            f"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: token {TOKEN}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        ).encode()
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self):
        self.at = time.perf_counter()
        self.socket.sendall(self.request)

    def answer(self):
        parts = []
        with self.socket:
            while part := self.socket.recv(1 << 16):
                parts.append(part)
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        if b" 201 " not in head.split(b"\r\n")[0]:
            raise ConnectionError(f"{head!r} {body!r}")
        return json.loads(body)


def burst(gateway, name, count):
    """All at once, from a pool that has them; seconds from each request to its kernel's first kernel_info reply.

    One thread writes the requests, one after the other, and waits for no answer: that is the order of asking. A pool
    assigns the kernel that has waited longest, so the kernels' ages say in which order they were assigned. `created`
    of a session says in which order they learned their owner, which many do at the same time.
    """
    gateway.warm(name, count)
    claims = [Asked(gateway.port, name) for _ in range(count)]

    def one(claim):
        kernel = claim.answer()
        client = gateway.connect(kernel["id"])
        client.kernel_info()
        took = time.perf_counter() - claim.at
        client.close()
        return took, kernel

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        start = time.perf_counter()
        for claim in claims:
            claim.ask()
        asking = time.perf_counter() - start
        results = list(pool.map(one, claims))
    kernels = [kernel for _, kernel in results]
    born = births(f"{gateway.folder}/data/himalia.db")
    for kernel in kernels:
        gateway.end(kernel["id"])
    ways = [kernel["started_by"] for kernel in kernels]
    return {
        "seconds": [took for took, _ in results],
        "started_by": {way: ways.count(way) for way in set(ways)},
        "asking_ms": 1e3 * asking,
        "given_away": order([born[kernel["id"]] for kernel in kernels]),
        "told": order([kernel["created"] for kernel in kernels]),
    }


def births(database):
    """When the kernel of each session was started, without an owner yet: its log's directory has it in its name."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as store:
        rows = store.execute("SELECT id, session_dir FROM kernels").fetchall()
    store.close()
    return {kernel: int(directory.rpartition("-")[2], 16) for kernel, directory in rows}


def order(times):
    """Of times in the order of asking: the percentage of pairs that are in this order (50: no order at all), and by
    the largest number of later ones that overtook one."""
    pairs = [first <= second for first, second in itertools.combinations(times, 2)]
    overtaken = max(sum(later < mine for later in times[place + 1 :]) for place, mine in enumerate(times))
    return {"pairs_in_order": 100 * sum(pairs) / len(pairs), "overtaken_by": overtaken}
