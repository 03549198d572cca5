"""Forks a live kernel again and again, and says what that costs.

    python tests/soak/forks.py --python <kernels' interpreter> [--forks 1000] [--each 20] [--gigabyte]

First `--forks` forks of one kernel with a data frame, each branch checked and ended; the parent's memory, descriptors
and threads must not grow. Then `--each` forks for each library of tests/python/kernel/test_fork_hazards.py, and with
`--gigabyte` the latency and the branch's memory with a frame of 1 GB. Exits with 1 if anything was wrong.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "python" / part) for part in ("kernel", "support")]
from branching import Family  # noqa: E402
from test_fork_hazards import WORKS  # noqa: E402

_BIG = "import numpy as np, pandas as pd; df = pd.DataFrame(np.random.rand(12_500_000, 10))"
_FRAME = "import numpy as np, pandas as pd; df = pd.DataFrame(np.random.rand(1000, 10))"


def spread(numbers):
    """Median, 95th percentile and minimum, as text."""
    ordered = sorted(numbers)
    return f"median {statistics.median(ordered):.1f}, p95 {ordered[int(0.95 * (len(ordered) - 1))]:.1f}, min {ordered[0]:.1f}"


def private_mib(pid):
    """Memory of a process that it shares with no other, MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def resources(pid):
    """Resident MiB, descriptors and threads of a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])


def forks(family, count, code, expected=None):
    """Fork `count` times and run `code` in each branch; prints what it took and returns how many went wrong."""
    total, fork, memory, wrong = [], [], [], 0
    for number in range(count):
        started = time.perf_counter()
        try:
            branch = family.fork()
            total.append(1000 * (time.perf_counter() - started))
            fork.append(branch.forked["ms"]["fork"])
            memory.append(private_mib(branch.pid))
            reply, out, _ = branch.run(code, timeout=30)
            wrong += reply["status"] != "ok" or (expected is not None and out != expected)
            branch.close()
        except (TimeoutError, AssertionError) as problem:
            print(f"fork {number}: {problem}")
            wrong += 1
    print(f"  {count} forks, {wrong} wrong; request to the branch's kernel_info, ms: {spread(total)}")
    print(f"  fork() alone, ms: {spread(fork)}; private memory of the branch, MiB: {spread(memory)}", flush=True)
    return wrong


def main():
    """Run the soak."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--forks", type=int, default=1000)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--gigabyte", action="store_true")
    options = parser.parse_args()
    wrong = 0

    with Family(options.python) as family:
        family.kernel.run(_FRAME)
        print("a small frame", flush=True)
        wrong += forks(family, min(20, options.forks), "print(df.shape)", "(1000, 10)\n")
        before = resources(family.kernel.process.pid)
        if options.forks > 20:
            wrong += forks(family, options.forks - 20, "print(df.shape)", "(1000, 10)\n")
        after = resources(family.kernel.process.pid)
        print(f"  the parent's MiB, descriptors, threads: {before} before, {after} after")
        if after[0] > before[0] + 20 or after[1] > before[1] + 2 or after[2] > before[2]:
            print("  the parent grew")
            wrong += 1
        if "ok" != family.kernel.run("df.sum()")[0]["status"] or family.kernel.stderr():
            print(f"  the parent was harmed: {family.kernel.stderr()}")
            wrong += 1

    for name, module, prepare, code in WORKS if options.each else ():
        with Family(options.python) as family:
            find = f"import importlib.util; print(importlib.util.find_spec({module!r}) is not None)"
            if family.kernel.run(find)[1] != "True\n":
                print(f"{name}: not installed")
                continue
            family.kernel.run(prepare)
            print(name, flush=True)
            wrong += forks(family, options.each, code)

    if options.gigabyte:
        with Family(options.python) as family:
            family.kernel.run(_BIG)
            print("a frame of 1 GB", flush=True)
            wrong += forks(family, 20, "print(df.shape)", "(12500000, 10)\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
