"""`make timings`: the minutes of each target, one after the other, in a new clone of the last commit.

What a target builds is there for those after it, as in CI. The caches of Cargo, npm and pip of this machine are used. The output of each target
goes into `target/timings`. If a target fails, it is named and no table is printed.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import provenance
import tables

TARGETS = {
    "prerequisites-test": "packages and tools of the tests, as far as they are missing",
    "prerequisites-kubernetes": "the same for the cluster",
    "lint": "clippy at both ends of the cargo features, dependency policy; from nothing",
    "test-rust": "builds all tests and programs, runs them",
    "check": "after a change in `crates/kernel`",
    "test-web": "the viewer and the client for JavaScript",
    "test-programs": "static programs and the environment of kernels",
    "test-python": "real kernels and clients",
    "test-sandbox": "sandboxes of namespaces",
    "test-viewer": "the viewer in Chromium",
    "test-js": "JupyterLab and clients in Chromium and Node",
    "test-docker": "runc and gVisor",
    "test-long": "Python 3.14, long tests, a million schedules",
    "test-kubernetes": "builds a cluster, then pods",
}
"""In this order, with the content of the row."""
CHANGED = "crates/kernel/src/lib.rs"
"""The file that changes before `check`."""


def spent():
    """Seconds of processor time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(target, clone, logs):
    """Status, seconds, seconds of processor time."""
    if target == "check":
        (clone / CHANGED).touch()
    ours = ("CARGO_TARGET_DIR", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    env = {name: value for name, value in os.environ.items() if name not in ours} | {"CI": "true"}
    begun, used = time.monotonic(), spent()
    with (logs / f"{target}.log").open("w") as log:
        status = subprocess.run(["make", target], cwd=clone, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT).returncode
    return status, time.monotonic() - begun, spent() - used


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, with commas")
    args = parser.parse_args()
    wanted = args.only.split(",")
    if unknown := [target for target in wanted if target not in TARGETS]:
        parser.error(f"--only: {', '.join(unknown)}: expected some of {', '.join(TARGETS)}")
    logs = provenance.ROOT / "target" / "timings"
    logs.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="himalia-timings-") as place:
        clone = Path(place) / "himalia"
        subprocess.run(["git", "clone", "--quiet", provenance.ROOT, clone], check=True)
        for target in wanted:
            status, wall, cpu = run(target, clone, logs)
            print(f"{target:20} {wall / 60:6.1f} min {cpu / 60:6.1f} min of processor time{'' if status == 0 else f'  FAILED: {logs / target}.log'}", flush=True)
            rows.append({"target": target, "about": TARGETS[target], "wall_s": round(wall), "cpu_s": round(cpu)})
            if status:
                failed.append(target)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(tables.timings(rows))
    print(f"\nMeasured on {tables.origin(provenance.about())}")


if __name__ == "__main__":
    main()
