"""The archive of the three programs, and the Debian package with the service."""

import subprocess
import sys
import tempfile
from pathlib import Path

import archives
import project

sys.path.insert(0, str(project.ROOT / "clients" / "python"))
from wheel import glibc

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
UNIT = project.ROOT / "packaging" / "himalia.service"
SOURCES = project.ROOT / "packaging" / "debian"


def archive(programs, machine, out):
    """`himalia-VERSION-linux-MACHINE.tar.gz`, which unpacks into one directory."""
    name = f"himalia-{project.version()}-linux-{machine}"
    entries = {f"{name}/{program}": ((programs / program).read_bytes(), 0o755) for program in project.PROGRAMS}
    for path in (UNIT, project.ROOT / "LICENSE", project.ROOT / "SECURITY.md"):
        entries[f"{name}/{path.name}"] = (path.read_bytes(), 0o644)
    target = out / f"{name}.tar.gz"
    archives.tar_gz(target, entries)
    return target


def unit():
    """The unit with the directory in which a package of Debian has programs."""
    text = UNIT.read_text()
    comment, body = text.split("\n\n", 1)
    assert comment.startswith("#"), "the unit does not start with its comment"
    return body.replace("/usr/local/bin/", "/usr/bin/")


def debian(programs, machine, out):
    """`himalia_VERSION_ARCHITECTURE.deb`."""
    architecture = DEBIAN[machine]
    files = {f"usr/bin/{program}": ((programs / program).read_bytes(), 0o755) for program in project.PROGRAMS}
    files |= {
        "usr/lib/systemd/system/himalia.service": (unit().encode(), 0o644),
        "etc/himalia/himalia.toml": ((SOURCES / "himalia.toml").read_bytes(), 0o640),
        "usr/share/doc/himalia/copyright": ((project.ROOT / "LICENSE").read_bytes(), 0o644),
        "usr/share/doc/himalia/README.Debian": ((SOURCES / "README.Debian").read_bytes(), 0o644),
    }
    size = sum(len(content) for content, _ in files.values()) // 1024
    oldest = max((2, 17), *(glibc(programs / program) for program in project.PROGRAMS))
    control = (SOURCES / "control").read_text().format(
        version=project.version(), maintainer=project.MAINTAINER, architecture=architecture, size=size, glibc=".".join(map(str, oldest))
    )
    files |= {
        "DEBIAN/control": (control.encode(), 0o644),
        "DEBIAN/conffiles": (b"/etc/himalia/himalia.toml\n", 0o644),
        **{f"DEBIAN/{name}": ((SOURCES / name).read_bytes(), 0o755) for name in ("postinst", "prerm", "postrm")},
    }
    target = out / f"himalia_{project.version()}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "root"
        for path, (content, mode) in files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode)
        for path in (root, *(path for path in root.rglob("*") if path.is_dir())):
            path.chmod(0o750 if path.name == "himalia" and path.parent.name == "etc" else 0o755)
        subprocess.run(
            ["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, target],
            check=True, stdout=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(project.seconds())},
        )
    return target
