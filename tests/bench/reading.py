"""Reading back what was printed: polls of a running execution, pages of a long text, a notebook of many cells."""

import statistics
import time

from targets import wait_until

LINE = 100
MESSAGE = 64_000  # bytes of one stream message


def measure(himalia, behind, paged, cells):
    """Median times in ms: of a poll with `behind` bytes before it, of pages at the beginning, middle and end of `paged` bytes, and
    of the notebook of a kernel that ran `cells` cells. The first reading of each is reported separately: it reads all of it, once.
    """
    session = himalia.call("POST", "/v1/sessions", {"template": "fake"})["id"]
    report = {"poll_bytes": behind, "page_bytes": paged, "cells": cells}
    running = begin(himalia, session, f"lines {behind // MESSAGE} {MESSAGE} wait")
    report["poll_first_ms"], report["poll_p50_ms"] = times(lambda: himalia.call("GET", running), 100)
    himalia.call("POST", f"{running}/interrupt")
    ended(himalia, running)
    printed = begin(himalia, session, f"lines {paged // MESSAGE} {MESSAGE}")
    ended(himalia, printed)
    pages = {}
    for name, part in (("first", 0), ("middle", 0.5), ("last", 0.99)):
        path = f"{printed}/output?cursor={int(paged * part)}&limit=65536"
        pages[name] = times(lambda path=path: himalia.call("GET", path), 20)
    report["page_first_ms"] = pages["first"][0]
    report["page_p50_ms"] = {name: median for name, (_, median) in pages.items()}
    himalia.call("DELETE", f"/v1/sessions/{session}")
    for _ in range(cells):
        himalia.client.execute("pass")
    _, report["notebook_p50_ms"] = times(lambda: himalia.call("GET", f"/v1/sessions/{himalia.kernel_id}/notebook.ipynb"), 5)
    return report


def begin(himalia, session, code):
    body = {"code": code, "background": True}
    taken = himalia.call("POST", f"/v1/sessions/{session}/executions", body)
    path = f"/v1/executions/{taken['id']}"
    # All that it prints is in the log when nothing more comes.
    sizes = []

    def quiet():
        sizes.append(himalia.call("GET", f"/v1/sessions/{session}")["last_activity"])
        time.sleep(0.5)
        return len(sizes) > 4 and len(set(sizes[-4:])) == 1

    wait_until(quiet, "the end of the output", 600)
    return path


def ended(himalia, path):
    def over():
        return himalia.call("GET", f"{path}?wait_s=30")["status"] not in ("queued", "running")

    wait_until(over, "the end of an execution", 600)


def times(call, rounds):
    """The time of the first call, and the median of `rounds` others, in ms."""
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken[0], statistics.median(taken[1:])


def show(found):
    pages = " / ".join(f"{value:.1f}" for value in found["page_p50_ms"].values())
    print("\nreading back, median ms (the first time, which reads all of it)")
    print(f"  poll of a running execution with {found['poll_bytes'] / 1e9:.1f} GB behind it {found['poll_p50_ms']:8.1f} ({found['poll_first_ms']:.0f})")
    print(f"  page of 64 KiB at the beginning / middle / end of {found['page_bytes'] / 1e6:.0f} MB  {pages} ({found['page_first_ms']:.0f})")
    print(f"  notebook of {found['cells']:,} cells {found['notebook_p50_ms']:8.1f}\n")
