"""kill -9 of the gateway with many live kernels: how soon after a new start all are answered for again."""

import time

from targets import wait_until


def measure(himalia, count):
    """Start `count` kernels, kill the gateway, start it again; seconds from the start of the new process."""
    while len(himalia.call("GET", "/api/kernels")) < count:
        himalia.call("POST", "/api/kernels", {"name": "fake"})
    wait_until(lambda: states(himalia) == {"idle"}, "all kernels to be idle")
    known = {kernel["id"] for kernel in himalia.call("GET", "/api/kernels")}
    himalia.client.close()
    himalia.process.kill()
    himalia.process.wait()
    start = time.monotonic()
    himalia.serve()
    ready = time.monotonic() - start
    wait_until(lambda: adopted(himalia, known), "all kernels to be adopted")
    return {"kernels": len(known), "ready_s": ready, "adopted_s": time.monotonic() - start}


def states(himalia):
    return {kernel["execution_state"] for kernel in himalia.call("GET", "/api/kernels")}


def adopted(himalia, known):
    kernels = himalia.call("GET", "/api/kernels")
    alive = {kernel["id"] for kernel in kernels if kernel["execution_state"] == "idle"}
    return alive >= known
