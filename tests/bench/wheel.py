"""From an empty machine with Python to the first plot, with the wheel alone: `wheel.py FILE.whl`. Times are those of tests/fresh/wheel.sh.

They include the download of the packages that kernels have, and so depend on the connection to the package index.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import provenance
import tables


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, help="write the figures there as JSON")
    args = parser.parse_args()
    done = subprocess.run([provenance.ROOT / "tests/fresh/wheel.sh", args.wheel], stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout)
    if done.returncode != 0:
        raise SystemExit(done.returncode)
    steps = [(step, int(seconds)) for seconds, step in re.findall(r"^(\d+) s: (.*)$", done.stdout, re.MULTILINE)]
    report = {**provenance.about(), "bytes": args.wheel.stat().st_size, "steps": steps}
    print(tables.wheel(report))
    if args.out:
        provenance.write(report, args.out)


if __name__ == "__main__":
    main()
