"""`make demo` from nothing: a new clone of the last commit, a new home and an empty cache of Cargo, with the toolchain that is there.

Downloads are part of it. The processor time is that of all processes of `make demo`.
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

sys.path.insert(0, str(provenance.ROOT / "tests"))
import lines  # noqa: E402

PROGRAMS = ("himalia", "himalia-shim", "himalia-jail")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    args = parser.parse_args()
    rustup = os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup"))
    with tempfile.TemporaryDirectory(prefix="himalia-build-") as place:
        clone, home = Path(place) / "himalia", Path(place) / "home"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", provenance.ROOT, clone], check=True)
        env = {name: value for name, value in os.environ.items() if name not in ("CARGO_TARGET_DIR", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        env |= {"HOME": str(home), "CARGO_HOME": str(home / ".cargo"), "RUSTUP_HOME": rustup, "CARGO_TERM_COLOR": "never"}
        begun, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(["make", "demo"], cwd=clone, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        sys.stdout.write(done.stdout)
        if done.returncode != 0:
            raise SystemExit(done.returncode)
        report = {
            **provenance.about(),
            "wall_s": round(wall),
            "cpu_s": round(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime),
            "compilations": sum(line.lstrip().startswith("Compiling ") for line in done.stdout.splitlines()),
            "lines": sum(lines.of_product().values()),
            "bytes": {name: (clone / "target/quick" / name).stat().st_size for name in PROGRAMS},
        }
    print(tables.build(report))
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
