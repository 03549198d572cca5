#!/usr/bin/env python3
"""Makes the wheel of the Python client with the programs of the gateway in it, or the client alone as a wheel and a source archive.

`wheel.py --programs DIR --out DIR`: DIR of the programs has `himalia`, `himalia-shim` and `himalia-jail`, which the wheel installs beside
each other. Its platform is the oldest glibc whose symbols they need (PEP 600) on `--machine`, by default this one.
`wheel.py --client --out DIR`: a wheel for every platform, and the sources.
"""

import argparse
import base64
import gzip
import hashlib
import io
import platform
import re
import stat
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("himalia", "himalia-shim", "himalia-jail")
# All entries of the archive have this time, so that the same sources make the same wheel.
TIME = (2026, 1, 1, 0, 0, 0)


def glibc(program):
    """The newest version of glibc whose symbols a program needs, as (2, 17)."""
    # Reads programs of every machine.
    symbols = subprocess.run(["readelf", "--dyn-syms", "--wide", program], check=True, capture_output=True, text=True).stdout
    versions = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
    return max(versions, default=(2, 17))


# Installs the packages of kernels in a fifth of pip's time.
WITH_PROGRAMS = ("uv>=0.8",)


def metadata(project, programs=()):
    """The METADATA of the wheel."""
    lines = [
        "Metadata-Version: 2.3",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        *(f"Requires-Dist: {name}" for name in (*project["dependencies"], *(WITH_PROGRAMS if programs else ()))),
    ]
    for extra, names in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {name}; extra == "{extra}"' for name in names)]
    return "\n".join(lines) + "\n\n" + (HERE / project["readme"]).read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    content = parser.add_mutually_exclusive_group(required=True)
    content.add_argument("--programs", type=Path)
    content.add_argument("--client", action="store_true")
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    args.out.mkdir(parents=True, exist_ok=True)
    print(wheel(project, args.programs, args.machine, args.out))
    if args.client:
        print(sources(project, args.out))


def package():
    """The files of the Python package, by path."""
    files = (path for path in sorted((HERE / "himalia").rglob("*")) if path.suffix in (".py", ".typed"))
    return {str(path.relative_to(HERE)): path.read_bytes() for path in files}


def sources(project, out):
    """The source archive (PEP 625)."""
    name = f"{project['name']}-{project['version']}"
    files = package() | {path.name: path.read_bytes() for path in (HERE / "pyproject.toml", HERE / "README.md", HERE.parents[1] / "LICENSE")}
    files["PKG-INFO"] = metadata(project).encode()
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    target = out / f"{name}.tar.gz"
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(plain.getvalue())
    return target


def wheel(project, directory, machine, out):
    """The wheel, with the programs of a directory if there is one."""
    programs = {name: directory / name for name in PROGRAMS} if directory else {}
    tag = "py3-none-any"
    if programs:
        major, minor = max((2, 17), *(glibc(path) for path in programs.values()))
        tag = f"py3-none-manylinux_{major}_{minor}_{machine}"
    name = f"{project['name']}-{project['version']}"
    info = f"{name}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: himalia wheel.py\nRoot-Is-Purelib: {str(not programs).lower()}\nTag: {tag}\n"
    entries = {path: (content, 0o644) for path, content in package().items()}
    entries |= {f"{name}.data/scripts/{program}": (path.read_bytes(), 0o755) for program, path in programs.items()}
    entries |= {
        f"{info}/METADATA": (metadata(project, programs).encode(), 0o644),
        f"{info}/WHEEL": (wheel.encode(), 0o644),
        f"{info}/licenses/LICENSE": ((HERE.parents[1] / "LICENSE").read_bytes(), 0o644),
    }
    record = [f"{path},sha256={digest(content)},{len(content)}" for path, (content, _) in entries.items()]
    entries[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]).encode() + b"\n", 0o644)
    target = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (content, mode) in entries.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return target


def digest(content):
    """As RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    main()
