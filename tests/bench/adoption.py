"""kill -9 of the gateway with many live kernels, some of which print: how soon after a new start all are answered for again."""

import time
from datetime import datetime, timezone

from targets import wait_until


def measure(himalia, count, printing):
    """Start `count` kernels of which `printing` print all the time, kill the gateway, start it again; seconds from the start of the
    new process until all that print are heard and all others are idle."""
    while len(kernels(himalia)) < count:
        himalia.call("POST", "/api/kernels", {"name": "fake"})
    wait_until(lambda: all(kernel["execution_state"] == "idle" for kernel in kernels(himalia).values()), "all kernels to be idle")
    known = set(kernels(himalia))
    loud = set(sorted(known - {himalia.kernel_id})[:printing])
    for kernel in loud:
        himalia.call("POST", f"/v1/sessions/{kernel}/executions", {"code": "tick", "background": True})
    begun = datetime.now(timezone.utc)
    wait_until(lambda: all(heard(kernels(himalia)[kernel], begun) for kernel in loud), "the kernels that print")
    himalia.client.close()
    himalia.process.kill()
    himalia.process.wait()
    start, again = time.monotonic(), datetime.now(timezone.utc)
    himalia.serve()
    ready = time.monotonic() - start
    wait_until(lambda: adopted(kernels(himalia), known, loud, again), "all kernels to be adopted")
    return {"kernels": len(known), "printing": len(loud), "ready_s": ready, "adopted_s": time.monotonic() - start}


def kernels(himalia):
    return {kernel["id"]: kernel for kernel in himalia.call("GET", "/api/kernels")}


def heard(kernel, since):
    """Whether it printed after a moment."""
    return kernel["execution_state"] == "busy" and datetime.fromisoformat(kernel["last_activity"]) > since


def adopted(found, known, loud, since):
    quiet = {kernel for kernel in known - loud if kernel in found and found[kernel]["execution_state"] == "idle"}
    return quiet == known - loud and all(kernel in found and heard(found[kernel], since) for kernel in loud)
