#!/usr/bin/env python3
"""Makes the files of a release that are not compiled: `make.py --programs DIR --out DIR`.

`--programs` has `himalia`, `himalia-shim` and `himalia-jail` of one machine, `--machine` says which. Give `--only programs` for an additional
machine. The last step of a release is `--sums`, which writes SHA256SUMS over all files of `--out`.
"""

import argparse
import hashlib
import platform
from pathlib import Path

import archives
import hosts
import programs
import project


def chart(out):
    """`himalia-chart-VERSION.tgz`, which `helm install` takes."""
    target = out / f"himalia-chart-{project.version()}.tgz"
    entries = archives.below(project.ROOT / "packaging" / "chart" / "himalia")
    archives.tar_gz(target, {f"himalia/{path}": entry for path, entry in entries.items()})
    return target


def sums(out):
    """SHA256SUMS, as `sha256sum --check` reads it."""
    target = out / "SHA256SUMS"
    files = sorted(path for path in out.iterdir() if path != target)
    target.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--machine", choices=sorted(programs.DEBIAN), default=platform.machine())
    parser.add_argument("--only", choices=["programs"])
    parser.add_argument("--repository", default=project.REPOSITORY, help="OWNER/NAME on GitHub")
    parser.add_argument("--sums", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.programs:
        print(programs.archive(args.programs, args.machine, args.out))
        print(programs.debian(args.programs, args.machine, args.out))
    if args.programs and args.only is None:
        bundle = hosts.bundle(args.out)
        print(bundle, hosts.plugin(args.out), hosts.registry(bundle, args.repository, args.out), chart(args.out), sep="\n")
    if args.sums:
        print(sums(args.out))


if __name__ == "__main__":
    main()
