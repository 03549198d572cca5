"""`GET /api/kernels` over eight connections that stay open: requests per second, and the processor time of the gateway for them."""

import selectors
import socket
import statistics
import time

from targets import TOKEN, cpu_seconds

CONNECTIONS = 8
SECONDS = 2


def load(port, seconds):
    """Answers within this time: each connection sends its next request when it has the answer to the last one."""
    request = f"GET /api/kernels HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: token {TOKEN}\r\n\r\n".encode()
    with selectors.DefaultSelector() as selector:
        sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
        for one in sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.sendall(request)
            selector.register(one, selectors.EVENT_READ)
        answers, until = 0, time.perf_counter() + seconds
        parts = dict.fromkeys(sockets, b"")
        while time.perf_counter() < until:
            for key, _ in selector.select(seconds):
                one = key.fileobj
                parts[one] += one.recv(1 << 16)
                # Lengths differ: times of the last activity have no zeros at the end.
                if 0 < length(parts[one]) <= len(parts[one]):
                    if not parts[one].startswith(b"HTTP/1.1 200"):
                        raise RuntimeError(f"GET /api/kernels: {parts[one][:300]}")
                    parts[one] = b""
                    answers += 1
                    one.sendall(request)
        for one in sockets:
            one.close()
    return answers


def length(answer):
    """Bytes of an answer, with its head; 0 while that has not come."""
    head, end, _ = answer.lower().partition(b"\r\n\r\n")
    if not end:
        return 0
    return len(head) + len(end) + int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])


def measure(targets, rounds):
    """Medians for each gateway."""
    found = {target.name: [] for target in targets if target.name != "direct"}
    for _ in range(rounds):
        for target in targets:
            if target.name in found:
                before = cpu_seconds([target.process.pid])
                answers = load(target.port, SECONDS)
                found[target.name].append((answers / SECONDS, (cpu_seconds([target.process.pid]) - before) * 1e6 / answers))
    row = {}
    for name, values in found.items():
        rates, cpu = zip(*values, strict=True)
        row[name] = {"per_s": statistics.median(rates), "cpu_us": statistics.median(cpu)}
    return row
