"""`make bench-sandboxes`: what a sandbox costs, cold, from the zygote and from the pool, per isolation level.

Every figure comes through the public API: POST /api/kernels or /v1/sessions, then a WebSocket. `cold` is the same
sandbox without zygote and pool, in the same run, so the ratios mean something on any machine.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import statistics
import time
from pathlib import Path

import provenance
import tables
from burst import burst
from engine import IMAGE, RUNTIMES, Engine, NotRun
from targets import Himalia, children, wait_until

# Seconds before each measured start.
REST_S = 0.5
PRELOAD = ["numpy", "pandas", "matplotlib.pyplot"]
IMPORTS = "import pandas as pd, numpy as np"
WORK = "import pandas as pd, numpy as np\npd.DataFrame(np.random.rand(1000, 8)).describe()"
DATA = "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.ones((16_000_000, 8)))\nassert df.memory_usage().sum() > 1e9"


def template(name, level, pool=0, pool_max=None, memory="8GiB", **more):
    lines = [
        f"[templates.{name}]",
        'kernelspec = "python3"',
        f'provisioner = "{"local" if level == "namespaces" else "docker"}"',
        f'isolation = "{level}"',
        f'memory = "{memory}"',
        f"preload = {json.dumps(PRELOAD)}",
        *(f"{key} = {json.dumps(value)}" for key, value in more.items()),
    ]
    if pool:
        lines += [f"[templates.{name}.pool]", f"size = {pool}", f"max = {pool_max or pool}"]
    return "\n".join(lines) + "\n"


class Sandboxes(Himalia):
    """A gateway with templates, and no kernel at first."""

    def __init__(self, config):
        self.config = config

    def start(self, binary=None):
        # The kernels' environment is the user's own, built once.
        self.env["HOME"] = os.environ["HOME"]
        path = Path(self.folder, "himalia.toml")
        path.write_text(self.config)
        self.options = ["--config", str(path), "--max-kernels", "1000"]
        self.foreign = shim_pids()
        super().start(binary)

    def first_client(self):
        """None: every row starts its own sessions."""

    def pool(self, name):
        return next(pool for pool in self.call("GET", "/v1/pools")["pools"] if pool["template"] == name)

    def warm(self, name, count, seconds=300):
        wait_until(lambda: self.pool(name)["ready"] >= count, f"{count} pooled kernels of {name}", seconds)

    def session(self, name, **more):
        return self.call("POST", "/v1/sessions", {"template": name, **more})

    def end(self, kernel):
        self.call("DELETE", f"/v1/sessions/{kernel}")

    def first_answer(self, name, expect, **more):
        """Seconds from the request for a kernel to its first kernel_info reply, then to a cell with imports."""
        start = time.perf_counter()
        kernel = self.session(name, **more)
        client = self.connect(kernel["id"])
        client.kernel_info()
        info = time.perf_counter() - start
        client.execute(IMPORTS)
        done = time.perf_counter() - start
        assert kernel["started_by"] == expect, (kernel["started_by"], expect)
        client.close()
        self.end(kernel["id"])
        return info, done


def spread(values):
    ordered = sorted(values)
    return {
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        "n": len(ordered),
    }


def starts(gateway, level, rounds):
    """Cold, zygote and pool, interleaved."""
    # A variable that an interpreter reads at its start: neither a pooled kernel nor a fork can have it.
    ways = {"cold": ("plain", "cold", {"env": {"PYTHONHASHSEED": "7"}}), "pool": ("pooled", "pool", {})}
    if level == "namespaces":
        ways["zygote"] = ("plain", "zygote", {})
        warm_zygote(gateway)
    found = {way: ([], []) for way in ways}
    for turn in range(rounds):
        for way, (name, expect, more) in ways.items():
            if way == "cold" and turn % 4:
                continue
            # Nothing else is being started. The row of sustained claims is about starts without a rest.
            gateway.warm("pooled", 4)
            time.sleep(REST_S)
            info, done = gateway.first_answer(name, expect, **more)
            found[way][0].append(info)
            found[way][1].append(done)
    return {way: {"kernel_info": spread(info), "imports": spread(done)} for way, (info, done) in found.items()}


def warm_zygote(gateway):
    """The first sessions of a template come before its zygote is ready."""

    def forked():
        kernel = gateway.session("plain")
        gateway.end(kernel["id"])
        return kernel["started_by"] == "zygote"

    wait_until(forked, "a session that the zygote starts")


def pss(pids):
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def below(pid):
    found, queue = [], [pid]
    while queue:
        some = children(queue.pop())
        found += some
        queue += some
    return found


def shim_pids():
    """Every shim of the machine, with all below it; of gVisor, inside which nothing is seen, its own processes."""
    pids = set()
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"himalia-shim" in command or command.startswith(b"runsc-"):
                pids |= {int(entry.name), *below(int(entry.name))}
        except OSError:
            continue
    return pids


def sandbox_pids(gateway):
    """The gateway's children (zygotes, shims that it executed), and shims that began after it, with all below them."""
    return set(below(gateway.process.pid)) | (shim_pids() - gateway.foreign)


def memory(gateway, name, count, **more):
    """What each working kernel adds to the proportional set size of all that the gateway has started, shims and
    sleeping zygotes included, and what was there before: the template's zygote. For a gateway without a pool."""
    before = pss(sandbox_pids(gateway))
    kernels = [gateway.session(name, **more)["id"] for _ in range(count)]
    for kernel in kernels:
        client = gateway.connect(kernel)
        client.execute(WORK)
        client.close()
    each = (pss(sandbox_pids(gateway)) - before) / count
    for kernel in kernels:
        gateway.end(kernel)
    return {"each": each / (1 << 20), "once": before / (1 << 20)}


def sustained(gateway, name, seconds):
    """Claims one after the other: claim, kernel_info, end. Ended sandboxes are replaced meanwhile."""
    stop, served = time.monotonic() + seconds, []

    def one(_):
        while time.monotonic() < stop:
            start = time.perf_counter()
            kernel = gateway.session(name)
            client = gateway.connect(kernel["id"])
            client.kernel_info()
            served.append(time.perf_counter() - start)
            client.close()
            gateway.end(kernel["id"])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))
    return {"per_s": len(served) / seconds, **spread(served)}


def forks(gateway, name, rounds):
    kernel = gateway.session(name)["id"]
    client = gateway.connect(kernel)
    client.execute(DATA)
    times, private = [], []
    for _ in range(rounds):
        before = set(sandbox_pids(gateway))
        start = time.perf_counter()
        branch = gateway.call("POST", f"/v1/sessions/{kernel}/fork", {"count": 1, "policy": "report"})["branches"][0]["session"]["id"]
        child = gateway.connect(branch)
        child.kernel_info()
        times.append(time.perf_counter() - start)
        # Under gVisor a branch is no process of this machine.
        for pid in set(sandbox_pids(gateway)) - before:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            private.append(sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024)
        child.execute("assert len(df) == 16_000_000")
        child.close()
        gateway.end(branch)
    client.close()
    gateway.end(kernel)
    return {**spread(times), "private_mib": statistics.median(private) if private else None}


def crowd(gateway, name, count):
    """Live working sessions, and how fast each answers while all are alive."""
    kernels, clients = [], []
    for _ in range(count):
        kernels.append(gateway.session(name)["id"])
    for kernel in kernels:
        clients.append(gateway.connect(kernel))
        clients[-1].execute(WORK)
    times = []
    for client in clients:
        start = time.perf_counter()
        client.execute("1 + 1")
        times.append(time.perf_counter() - start)
    for client in clients:
        client.close()
    for kernel in kernels:
        gateway.end(kernel)
    return {"sessions": count, **spread(times), "slowest_ms": 1e3 * max(times)}


def measure(level, args, base="", **more):
    """All rows of a level. `base` and `more`: what stands in the configuration, and in each template, for it."""
    report = {}
    config = base + template("plain", level, **more) + template("pooled", level, pool=4, pool_max=8, **more)
    with Sandboxes(config) as gateway:
        gateway.warm("pooled", 4)
        report["starts"] = starts(gateway, level, args.rounds)
        report["fork"] = forks(gateway, "plain", min(args.rounds, 10))
        if level == "namespaces":
            report["sustained"] = sustained(gateway, "pooled", args.seconds)
    with Sandboxes(base + template("plain", level, **more)) as gateway:
        if level == "namespaces":
            warm_zygote(gateway)
        report["memory_mib"] = memory(gateway, "plain", 10)
        report["memory_cold_mib"] = memory(gateway, "plain", 3, env={"PYTHONHASHSEED": "7"})["each"]
    if level == "namespaces":
        with Sandboxes(base + template("pooled", level, pool=60, memory="1GiB")) as gateway:
            found = burst(gateway, "pooled", 50)
            report["burst"] = {**spread(found.pop("seconds")), **found}
    count = args.crowd or {"namespaces": 300, "container": 100}.get(level, 0)
    if count:
        with Sandboxes(base + template("plain", level, memory="1GiB", **more)) as gateway:
            report["crowd"] = crowd(gateway, "plain", count)
    return report


def measure_all(levels, args):
    """Each level's rows, or why there are none."""
    report = {}
    with contextlib.ExitStack() as stack:
        engine = None
        for level in levels:
            begun = time.monotonic()
            try:
                if level in RUNTIMES:
                    engine = engine or stack.enter_context(Engine())
                    engine.need_runtime(level)
                    base = f'[docker]\nhost = "{engine.host}"\nimage = "{IMAGE}"\n'
                    report[level] = measure(level, args, base, image=IMAGE, runtime=RUNTIMES[level])
                else:
                    report[level] = measure(level, args)
            except NotRun as reason:
                report[level] = {"not_run": str(reason)}
            report[level]["minutes"] = (time.monotonic() - begun) / 60
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    parser.add_argument("--levels", default="namespaces,container,gvisor", help="comma-separated: namespaces, container, gvisor")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60, help="length of the sustained row")
    parser.add_argument("--crowd", type=int, default=0, help="live sessions; 0: 300 namespaces, 100 containers")
    args = parser.parse_args()
    report = {**provenance.about(), "levels": measure_all(args.levels.split(","), args)}
    print("\n" + tables.sandboxes(report))
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
