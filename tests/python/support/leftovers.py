"""What a gateway that has ended its sessions must not leave behind, told apart by its run directory and its data directory."""

import contextlib
import os
import signal
import sqlite3
import stat
from pathlib import Path

from processes import alive

UIDS = Path("/run/himalia/uids")


def left_by(data, clean=True):
    """Everything that the gateway of a data directory has left, as lines that name it; empty if it satisfied its contract.

    Only for one that ended its kernels, as after Ctrl-C: after SIGTERM or a kill they are meant to live. `clean`: it ended by itself, so that
    its run directory is gone too, and no user ids are reserved for it.
    """
    data = Path(data)
    note = data / "run-dir"
    if not note.exists():
        return []  # It never came so far.
    run = Path(os.fsdecode(note.read_bytes()))
    found = [f"process {pid}: {line}" for pid, line in processes(run, data)]
    found += [f"mount {path}" for path in mounts(run, data)]
    found += [f"control group {path}" for path in groups(run)]
    found += [f"socket {path}" for path in sockets(run)]
    found += [f"{path} in the run directory" for path in entries(run)]
    if clean:
        found += [f"run directory {run}"] if run.exists() else []
        found += [f"user ids {path}" for path in reserved(data)]
    rows, ended = lifetimes(data)
    found += [f"row of session {row}" for row in rows]
    logs = {f"kernels/{path.name}" for path in (data / "kernels").glob("*")}
    found += [f"{path} without a row" for path in sorted(logs - ended)]
    found += [f"kept files {path}" for path in (data / "files").glob("*")]
    return found


def sessions_of(gateway):
    """Ids of what lives on a gateway: kernels, and sessions of the native API."""
    kernels = {kernel["id"] for kernel in gateway.http.get("api/kernels").json()}
    return kernels | {made["id"] for made in gateway.http.get("v1/sessions").json()["sessions"]}


def states_of(gateway):
    """The states of the kernels of a gateway."""
    return [kernel["execution_state"] for kernel in gateway.http.get("api/kernels").json()]


def footprint(gateway):
    """What a living gateway has on the machine besides itself, as lines; for one without pools, zygotes and sandboxes in reserve."""
    data = gateway.directory / "data"
    run = Path(os.fsdecode((data / "run-dir").read_bytes()))
    pids = {f"process {pid}: {line}" for pid, line in processes(run, data) if pid != gateway.process.pid}
    places = {f"{what} {path}" for what, found in (("mount", mounts(run, data)), ("control group", groups(run))) for path in found}
    # Connections that clients still have are theirs; the gateway's own listening sockets of kernels lie below the run directory.
    return pids | places | {f"{path} in the run directory" for path in entries(run)}


def end_processes(data):
    """Ends what `left_by` found, so that a test that failed does not cost the next one memory."""
    note = Path(data) / "run-dir"
    if note.exists():
        for pid, _ in list(processes(Path(os.fsdecode(note.read_bytes())), Path(data))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def processes(run, data):
    """Live processes that name one of the directories in their arguments or environment, or have it mounted."""
    needles = [os.fsencode(run), os.fsencode(data)]
    own = mounts(run, data)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            # A process that has this one's mounts has nothing of its own.
            if not own:
                text += (entry / "mountinfo").read_bytes()
        except OSError:
            continue
        if any(needle in text for needle in needles) and alive(int(entry.name)):
            line = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            yield int(entry.name), line[:200]


def mounts(run, data):
    """Mounts of this mount namespace below one of the directories; those of pinned namespaces too."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in places if any(Path(place).is_relative_to(directory) for directory in (run, data))]


def groups(run):
    """Control groups of sandboxes of this gateway, under both versions."""
    name = "himalia" + str(run).replace("/", "-")
    found = []
    for top, folders, _ in os.walk("/sys/fs/cgroup"):
        if os.path.basename(top) == name:
            found += [os.path.join(top, folder) for folder in folders]
            folders.clear()
    return found


def sockets(run):
    """Unix sockets that a process still has, bound below the run directory."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    paths = {line.split(None, 7)[7] for line in lines if len(line.split(None, 7)) == 8}
    return sorted(path for path in paths if path.startswith(f"{run}/"))


def reserved(data):
    """Notes of user ids that the gateway of a data directory has, where it is root."""
    for path in UIDS.glob("*-*"):
        with contextlib.suppress(FileNotFoundError):
            if path.read_bytes() == os.fsencode(data):
                yield path


def entries(run):
    """Sockets, keys and directories of sandboxes below the run directory."""
    found = []
    for top, folders, files in os.walk(run):
        found += [os.path.join(top, folder) for folder in folders if len(folder) >= 16]
        for name in files:
            path = os.path.join(top, name)
            with contextlib.suppress(FileNotFoundError):
                if name == "key" or stat.S_ISSOCK(os.lstat(path).st_mode):
                    found.append(path)
    return found


def lifetimes(data):
    """The ids of sessions that the store says are alive, and the logs of those that ended.

    Replicas of a shared store have no store of their own: `Replicas.stop` looks at that one.
    """
    if not (data / "himalia.db").exists():
        return [], {f"kernels/{path.name}" for path in (data / "kernels").glob("*")}
    with sqlite3.connect(f"file:{data}/himalia.db?mode=ro", uri=True) as store:
        rows = [row[0] for row in store.execute("SELECT id FROM kernels")]
        ended = {row[0] for row in store.execute("SELECT session_dir FROM ended_sessions")}
    store.close()
    return rows, ended
