"""Forks a live kernel again and again: no parent may hang or grow, no branch may go wrong or be left behind.

    python tests/soak/forks.py --python <kernels' interpreter> [--forks 1000] [--each 20] [--minutes 30] [--gigabyte]

First `--forks` forks of one kernel with a data frame, OpenBLAS's threads, an idle thread pool and a running thread, each
branch checked and ended. Then `--each` forks for each library of tests/python/kernel/fork_matrix.py: those that work,
those that are reported, and refusals. With `--gigabyte` also the latency and the branch's memory with a frame of 1 GB.
`HIMALIA_TEST_LIBRARIES` names the folder of the libraries that the kernels' environment does not have. Ends with a
report, and with exit code 1 if anything was wrong or not done within `--minutes`.
"""

import argparse
import contextlib
import os
import signal
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "python" / part) for part in ("kernel", "support")]
from branching import Family, request_fork  # noqa: E402
from fork_matrix import REFUSED, WARNED, WORKS, need  # noqa: E402
from processes import having_in_environment  # noqa: E402
from waiting import eventually  # noqa: E402

_THREADS = """
import threading, time
import numpy as np, pandas as pd
from concurrent.futures import ThreadPoolExecutor
df = pd.DataFrame(np.random.rand(1000, 10)); square = np.random.rand(500, 500); square @ square
pool = ThreadPoolExecutor(4); list(pool.map(abs, range(100)))
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
_USE_THREADS = "print(df.shape, (square @ square).shape, list(pool.map(abs, [-1, 2])))"
_BIG = "import numpy as np, pandas as pd; df = pd.DataFrame(np.random.rand(12_500_000, 10))"
# What a parent may have more after all its forks than after the first of them: MiB, descriptors, threads.
_GROWTH = (20, 2, 0)
_WARM_UP = 20


class OutOfTime(Exception):
    """The soak took longer than it may."""


@dataclass
class Row:
    """What came of one part of the soak."""

    name: str
    done: int = 0
    what: str = "forks"
    wrong: list = field(default_factory=list)
    ready_ms: list = field(default_factory=list)
    fork_ms: list = field(default_factory=list)
    private_mib: list = field(default_factory=list)

    def __str__(self):
        times = ""
        if self.ready_ms:
            times = (
                f"  to kernel_info {spread(self.ready_ms)} ms  fork() {spread(self.fork_ms)} ms"
                f"  private {spread(self.private_mib)} MiB"
            )
        return f"{self.name:22} {self.done:5} {self.what:8} {len(self.wrong):3} wrong{times}"


def spread(numbers):
    """Median and 95th percentile, as text."""
    ordered = sorted(numbers)
    return f"{statistics.median(ordered):.0f} (p95 {ordered[int(0.95 * (len(ordered) - 1))]:.0f})"


def private_mib(pid):
    """Memory of a process that it shares with no other, MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def resources(pid):
    """Resident MiB, descriptors and threads of a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(fields["Threads"])


class Soak:
    """All parts, within one deadline."""

    def __init__(self, python, minutes):
        self._python = python
        self._end = time.monotonic() + 60 * minutes
        self.rows = []
        self.grown = ""

    def _begin(self, name, what="forks"):
        print(f"{name} …", flush=True)
        self.rows.append(Row(name, what=what))
        return self.rows[-1]

    def _each(self, row, count, action):
        """Do something `count` times, and note each time that it went wrong."""
        for number in range(count):
            if time.monotonic() > self._end:
                row.wrong.append("out of time")
                raise OutOfTime
            try:
                action()
            except (TimeoutError, AssertionError) as problem:
                row.wrong.append(f"{row.what[:-1]} {number}: {problem}")
                print(f"  {row.wrong[-1]}", flush=True)
            row.done += 1

    def _forks(self, row, family, count, code, expected=None):
        def fork():
            started = time.perf_counter()
            branch = family.fork()
            row.ready_ms.append(1000 * (time.perf_counter() - started))
            row.fork_ms.append(branch.forked["ms"]["fork"])
            row.private_mib.append(private_mib(branch.pid))
            try:
                reply, out, _ = branch.run(code, timeout=30)
                assert reply["status"] == "ok", reply
                assert expected in (None, out), out
            finally:
                below = children(branch.pid)
                branch.close()
                for pid in below:  # as the shim does; they may end by themselves
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

        self._each(row, count, fork)

    def _finish(self, row, family):
        """The parent still works and has said nothing; of its branches nothing is left."""
        kernel = family.kernel
        try:
            assert kernel.run("print(6 * 7)")[1] == "42\n", "the parent does not work"
            assert kernel.stderr() == "", f"the parent says {kernel.stderr()[-2000:]}"
            ours = {kernel.process.pid}
            eventually(
                lambda: set(having_in_environment("HOME", kernel.directory.name)) - children(kernel.process.pid) == ours,
                "no branch is left",
            )
        except (TimeoutError, AssertionError) as problem:
            row.wrong.append(str(problem))
            print(f"  {problem}", flush=True)

    def one_session(self, count):
        """Many forks of one kernel, whose resources must not grow."""
        row = self._begin("OpenBLAS and threads")
        with Family(self._python) as family:
            kernel = family.kernel
            assert kernel.run(_THREADS)[0]["status"] == "ok"
            expected = "(1000, 10) (500, 500) [1, 2]\n"
            self._forks(row, family, min(_WARM_UP, count), _USE_THREADS, expected)
            before = resources(kernel.process.pid)
            self._forks(row, family, max(0, count - _WARM_UP), _USE_THREADS, expected)
            after = resources(kernel.process.pid)
            self.grown = f"the parent's MiB, descriptors, threads: {before} after {_WARM_UP} forks, {after} at the end"
            if any(late > early + more for early, late, more in zip(before, after, _GROWTH, strict=True)):
                row.wrong.append("the parent grew")
            assert kernel.run(_USE_THREADS)[1] == expected
            self._finish(row, family)

    def matrix(self, count):
        """Every row of the matrix."""
        for case in WORKS:
            self._case(case, count, case.after)
        for case in WARNED:
            self._case(case, count, case.inside, case.printed)
        for case in REFUSED:
            row = self._begin(case.name, "refusals")
            with Family(self._python) as family:
                self._prepare(case, family.kernel)

                def refuse(family=family, case=case):
                    reply, _ = request_fork(family.kernel)
                    assert reply.get("ename") == "ForkHazard", reply
                    assert all(words in reply["evalue"] for words in case.says), reply

                self._each(row, count, refuse)
                self._finish(row, family)

    def _prepare(self, case, kernel):
        if hasattr(case, "module"):
            need(kernel, case.module)
        assert kernel.run(case.before)[0]["status"] == "ok"

    def _case(self, case, count, code, expected=None):
        row = self._begin(case.name)
        with Family(self._python) as family:
            self._prepare(case, family.kernel)
            self._forks(row, family, count, code, expected)
            self._finish(row, family)

    def gigabyte(self, count):
        """Forks of a kernel with a large frame."""
        row = self._begin("a frame of 1 GB")
        with Family(self._python) as family:
            family.kernel.run(_BIG)
            self._forks(row, family, count, "print(df.shape)", "(12500000, 10)\n")
            self._finish(row, family)


def children(pid):
    """All processes below one: workers that the user's code keeps are no branches."""
    found, new = set(), {pid}
    while new:
        found |= new
        new = {
            int(child)
            for parent in new
            for task in Path(f"/proc/{parent}/task").glob("*/children")
            for child in task.read_text().split()
        } - found
    return found - {pid}


def main():
    """Run the soak."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--forks", type=int, default=1000)
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--gigabyte", action="store_true")
    options = parser.parse_args()
    soak = Soak(options.python, options.minutes)
    started = time.monotonic()
    try:
        if options.forks:
            soak.one_session(options.forks)
        if options.each:
            soak.matrix(options.each)
        if options.gigabyte:
            soak.gigabyte(20)
    except OutOfTime:
        print(f"not done within {options.minutes:g} minutes")
    print(f"\n{'':22} {'':5} {'':8}     median (95th percentile)")
    print(*soak.rows, sep="\n")
    print(soak.grown)
    wrong = [f"{row.name}: {problem}" for row in soak.rows for problem in row.wrong]
    print(*wrong, sep="\n")
    forked, refused = (sum(row.done for row in soak.rows if row.what == what) for what in ("forks", "refusals"))
    print(f"{forked} forks and {refused} refusals in {time.monotonic() - started:.0f} s: {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
