"""`make bench`: Himalia, its peers and a client with no gateway, interleaved in one run.

Prints a table and writes the same as JSON. Only ratios and differences within one run mean anything on a
shared machine; the absolute figures are this machine's, today.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import adoption
from targets import DirectTarget, Himalia, JupyterServer, KernelGateway, QuickAck

TARGETS = [DirectTarget, Himalia, JupyterServer, KernelGateway, QuickAck(JupyterServer), QuickAck(KernelGateway)]


def percentile(values, fraction):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def execute_row(targets, rounds, block):
    """Round trips of an execute that does nothing: from the request to its reply and its idle, in ms."""
    samples = {t.name: [] for t in targets}
    cpu = {t.name: 0.0 for t in targets}
    for _ in range(rounds):
        for target in targets:
            before = target.cpu()
            for _ in range(block):
                start = time.perf_counter()
                target.client.execute("pass")
                samples[target.name].append((time.perf_counter() - start) * 1e3)
            cpu[target.name] += target.cpu() - before
    row = {}
    for name, values in samples.items():
        row[name] = {
            "p50_ms": statistics.median(values),
            "p99_ms": percentile(values, 0.99),
            "executes": len(values),
            "cpu_s_per_10k": cpu[name] * 10_000 / len(values),
        }
    return row


def interrupt_row(targets, rounds, block):
    """From the order to interrupt a cell that waits to the cell's reply and its idle, in ms."""
    samples = {t.name: [] for t in targets}
    for _ in range(rounds):
        for target in targets:
            for _ in range(block):
                ordered = []

                def order(target=target, ordered=ordered):
                    ordered.append(time.perf_counter())
                    target.interrupt()

                target.client.execute("wait", order)
                samples[target.name].append((time.perf_counter() - ordered[0]) * 1e3)
    return {name: {"p50_ms": statistics.median(values), "max_ms": max(values)} for name, values in samples.items()}


def stream_row(targets, rounds, count, size):
    """A flood of stream messages through one execute: messages per second, lost ones, CPU per 100 MB."""
    runs = {t.name: [] for t in targets}
    for _ in range(rounds):
        for target in targets:
            before, start = target.cpu(), time.perf_counter()
            seen = target.client.execute(f"flood {count} {size}")
            wall = time.perf_counter() - start
            runs[target.name].append((count / wall, count - seen, (target.cpu() - before) * 1e8 / (count * size)))
    row = {}
    for name, values in runs.items():
        rates, lost, cpu = zip(*values)
        row[name] = {"per_s": statistics.median(rates), "lost": sum(lost), "cpu_s_per_100mb": statistics.median(cpu)}
    return row


def show(report):
    direct = report["execute"]["direct"]["p50_ms"]
    print(f"\nexecute on a kernel that does no work, v1 WebSocket (direct p50 {direct:.2f} ms)")
    print(f"  {'':26}{'p50 ms':>9}{'added':>9}{'p99 ms':>9}{'CPU s / 10,000':>17}")
    for name, row in report["execute"].items():
        added, cpu = row["p50_ms"] - direct, row["cpu_s_per_10k"]
        cpu = "-" if name == "direct" else f"{cpu:.2f}"
        print(f"  {name:26}{row['p50_ms']:9.2f}{added:9.2f}{row['p99_ms']:9.2f}{cpu:>17}")
    stream = report["stream"]
    print(f"\n{report['stream_count']:,} stream messages of 8 kB, v1 WebSocket")
    print(f"  {'':26}{'messages/s':>12}{'of direct':>11}{'lost':>8}{'CPU s / 100 MB':>17}")
    for name, row in stream.items():
        ratio = row["per_s"] / stream["direct"]["per_s"]
        cpu = "-" if name == "direct" else f"{row['cpu_s_per_100mb']:.2f}"
        print(f"  {name:26}{row['per_s']:12,.0f}{ratio:11.2f}{row['lost']:8}{cpu:>17}")
    print("\ninterrupt of a cell that waits, over REST (direct: a signal), until the cell's reply and idle")
    print(f"  {'':26}{'p50 ms':>9}{'slowest ms':>13}")
    for name, row in report["interrupt"].items():
        print(f"  {name:26}{row['p50_ms']:9.2f}{row['max_ms']:13.2f}")
    found = report["adoption"]
    print(f"\nkill -9 of the gateway with {found['kernels']} live kernels, then a new start")
    print(f"  ready {found['ready_s']:.2f} s, all adopted {found['adopted_s']:.2f} s after the start of the process\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="comma-separated names of targets; direct and himalia are always there")
    args = parser.parse_args()
    wanted = {"direct", "himalia", *args.only.split(",")} if args.only else None
    with contextlib.ExitStack() as stack:
        targets = []
        for make in TARGETS:
            if wanted is None or make.name in wanted:
                print(f"starting {make.name} …", file=sys.stderr)
                targets.append(stack.enter_context(make()))
        execute_row(targets, 1, 50)  # warm-up, not counted
        report = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
            "execute": execute_row(targets, args.rounds, 200),
        }
        himalia = next(t for t in targets if t.name == "himalia")
        # CPU in long blocks, since the kernel accounts in ticks of 10 ms, and their median, since others use the machine
        # too; before the floods, whose output is still being written to the disk after them.
        blocks = [execute_row([himalia], 1, 4_000)["himalia"]["cpu_s_per_10k"] for _ in range(5)]
        report["execute"]["himalia"]["cpu_s_per_10k"] = statistics.median(blocks)
        report["interrupt"] = interrupt_row(targets, args.rounds, 10)
        report["stream_count"] = 12_500
        report["stream"] = stream_row(targets, min(args.rounds, 3), 12_500, 8_000)
        report["adoption"] = adoption.measure(himalia, 50)
    show(report)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
