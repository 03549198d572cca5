"""What /proc says about processes that the tests started."""

import contextlib
import os
from pathlib import Path


def memory_mb(pid, field="VmRSS"):
    """Resident memory of a process in MB; `field` may be VmHWM for its peak. 0 for one that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    for line in status.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def alive(pid):
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment(pid):
    """The environment that a process was started with."""
    raw = Path(f"/proc/{pid}/environ").read_bytes()
    return dict(entry.split("=", 1) for entry in raw.decode(errors="replace").split("\0") if "=" in entry)


def command_line(pid):
    """The arguments of a process; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def having_in_environment(name, value):
    """All live processes whose starting environment has `name=value`: how a test finds what its gateway left."""
    wanted = f"{name}={value}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0") and alive(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def parent(pid):
    """The parent's pid."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def having_argument(text):
    """All live processes with an argument that contains `text`."""
    assert text, "an empty text is in every argument"
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if any(text in part for part in command_line(pid)) and alive(pid)]


def children(pid):
    """The children of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if alive(child)]
