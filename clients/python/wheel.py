#!/usr/bin/env python3
"""Makes the wheel of the Python client with the programs of the gateway in it.

`wheel.py --programs DIR --out DIR`: DIR of the programs has `himalia`, `himalia-shim` and `himalia-jail`, which the wheel installs beside
each other. Its platform is the oldest glibc whose symbols they need (PEP 600).
"""

import argparse
import base64
import hashlib
import re
import stat
import subprocess
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("himalia", "himalia-shim", "himalia-jail")
# All entries of the archive have this time, so that the same sources make the same wheel.
TIME = (2026, 1, 1, 0, 0, 0)


def glibc(program):
    """The newest version of glibc whose symbols a program needs, as (2, 17)."""
    symbols = subprocess.run(["objdump", "-T", program], capture_output=True, text=True).stdout
    versions = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
    return max(versions, default=(2, 17))


def metadata(project):
    """The METADATA of the wheel."""
    lines = [
        "Metadata-Version: 2.3",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        *(f"Requires-Dist: {name}" for name in project["dependencies"]),
    ]
    for extra, names in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {name}; extra == "{extra}"' for name in names)]
    return "\n".join(lines) + "\n\n" + (HERE / project["readme"]).read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    programs = {name: args.programs / name for name in PROGRAMS}
    major, minor = max((2, 17), *(glibc(path) for path in programs.values()))
    machine = subprocess.run(["uname", "-m"], check=True, capture_output=True, text=True).stdout.strip()
    tag = f"py3-none-manylinux_{major}_{minor}_{machine}"
    name = f"{project['name']}-{project['version']}"
    info = f"{name}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: himalia wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
    entries = {str(path.relative_to(HERE)): (path.read_bytes(), 0o644) for path in sorted((HERE / "himalia").rglob("*")) if path.suffix in (".py", ".typed")}
    entries |= {f"{name}.data/scripts/{program}": (path.read_bytes(), 0o755) for program, path in programs.items()}
    entries |= {
        f"{info}/METADATA": (metadata(project).encode(), 0o644),
        f"{info}/WHEEL": (wheel.encode(), 0o644),
        f"{info}/licenses/LICENSE": ((HERE.parents[1] / "LICENSE").read_bytes(), 0o644),
    }
    record = [f"{path},sha256={digest(content)},{len(content)}" for path, (content, _) in entries.items()]
    entries[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]).encode() + b"\n", 0o644)
    args.out.mkdir(parents=True, exist_ok=True)
    target = args.out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (content, mode) in entries.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(target)


def digest(content):
    """As RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
