"""`make bench`: Himalia, its peers and a client with no gateway, interleaved in one run.

Prints a table and writes the same as JSON. Only ratios and differences within one run mean anything on a
shared machine; the absolute figures are this machine's, today.
"""

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path

import adoption
import lists
import provenance
import reading
import tables
from targets import DirectTarget, Himalia, JupyterServer, KernelGateway, QuickAck

TARGETS = [DirectTarget, Himalia, JupyterServer, KernelGateway, QuickAck(JupyterServer), QuickAck(KernelGateway)]


def percentile(values, fraction):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def execute_row(targets, rounds, block):
    """Round trips of an execute that does nothing: from the request to its reply and its idle, in ms."""
    samples = {t.name: [] for t in targets}
    for _ in range(rounds):
        for target in targets:
            for _ in range(block):
                start = time.perf_counter()
                target.client.execute("pass")
                samples[target.name].append((time.perf_counter() - start) * 1e3)
    row = {}
    for name, values in samples.items():
        row[name] = {
            "p50_ms": statistics.median(values),
            "p99_ms": percentile(values, 0.99),
            "executes": len(values),
        }
    return row


def cpu_row(targets, rounds, seconds):
    """Processor time of the gateway and its shim per 10,000 executes, interleaved. The blocks are long, since the kernel accounts in ticks
    of 10 ms; their median, since others use the machine too, and all of them."""
    blocks = {t.name: [] for t in targets if t.name != "direct"}
    for _ in range(rounds):
        for target in targets:
            if target.name not in blocks:
                continue
            before, until, executes = target.cpu(), time.perf_counter() + seconds, 0
            while time.perf_counter() < until:
                target.client.execute("pass")
                executes += 1
            blocks[target.name].append((target.cpu() - before) * 10_000 / executes)
    return {name: {"cpu_s_per_10k": statistics.median(values), "cpu_blocks": values} for name, values in blocks.items()}


def memory_row(targets):
    """Resident MiB of each gateway, with one kernel that has run one cell."""
    return {t.name: {"mib": t.resident()} for t in targets if t.name != "direct"}


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


def display_row(targets, rounds, size):
    """One display of many bytes: from its request to the reply and idle behind it, in ms, and CPU of the gateway and its shim."""
    runs = {t.name: [] for t in targets}
    for counted in [False, *[True] * rounds]:
        for target in targets:
            before, start = target.cpu(), time.perf_counter()
            target.client.execute(f"display {size}")
            wall = (time.perf_counter() - start) * 1e3
            if counted:
                runs[target.name].append((wall, (target.cpu() - before) * 1e3))
    row = {}
    for name, values in runs.items():
        walls, cpu = zip(*values)
        row[name] = {"p50_ms": statistics.median(walls), "least_ms": min(walls), "cpu_ms": statistics.median(cpu)}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="length of a block of the CPU row")
    parser.add_argument("--messages", type=int, default=12_500, help="messages of the flood")
    parser.add_argument("--display", type=int, default=50_000_000, help="bytes of the one large display")
    parser.add_argument("--kernels", type=int, default=50, help="kernels that are adopted; a fifth of them prints")
    parser.add_argument("--only", help="comma-separated names of targets; direct and himalia are always there")
    args = parser.parse_args()
    wanted = {"direct", "himalia", *args.only.split(",")} if args.only else None
    with contextlib.ExitStack() as stack:
        targets = []
        for make in TARGETS:
            if wanted is None or make.name in wanted:
                print(f"starting {make.name} …", file=sys.stderr)
                targets.append(stack.enter_context(make()))
        memory = memory_row(targets)
        execute_row(targets, 1, 50)  # warm-up, not counted
        report = {**provenance.about(), "memory": memory, "execute": execute_row(targets, args.rounds, 200)}
        himalia = next(t for t in targets if t.name == "himalia")
        # Before the floods, whose output is still being written to the disk after them.
        for name, found in cpu_row(targets, args.rounds, args.seconds).items():
            report["execute"][name] |= found
        report["lists"] = lists.measure(targets, args.rounds)
        report["interrupt"] = interrupt_row(targets, args.rounds, 10)
        report["stream_count"] = args.messages
        report["stream"] = stream_row(targets, min(args.rounds, 3), args.messages, 8_000)
        report["display_bytes"] = args.display
        report["display"] = display_row(targets, args.rounds, args.display)
        report["reading"] = reading.measure(himalia, args.messages * 80_000, args.messages * 8_000, min(args.messages, 1_000))
        report["adoption"] = adoption.measure(himalia, args.kernels, args.kernels // 5)
    print("\n" + tables.gateway(report))
    reading.show(report["reading"])
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
