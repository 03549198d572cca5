"""What data work is done with runs under the sandbox's filter of system calls, in a sandbox that `himalia-jail` makes.

The kernels' environment and the prefix of its interpreter are bound at their own paths, read-only.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

JAIL = os.environ.get("HIMALIA_JAIL_BIN") or str(Path(os.environ["HIMALIA_BIN"]).with_name("himalia-jail"))
SANDBOX_HOST_ID = 245_678
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/nsswitch.conf", "/etc/hosts"]

PROGRAMS = {
    "numpy": """
import numpy as np
a = np.random.default_rng(0).normal(size=(400, 400))
assert np.allclose(np.linalg.inv(a) @ a, np.eye(400))
np.save("/session/a.npy", a)
assert (np.load("/session/a.npy", mmap_mode="r") == a).all()
""",
    "pandas": """
import pandas as pd
frame = pd.DataFrame({"k": list("aabb") * 500, "v": range(2000)})
frame.to_csv("/session/f.csv", index=False)
assert pd.read_csv("/session/f.csv").groupby("k").v.sum().sum() == sum(range(2000))
assert pd.Timestamp.now(tz="Europe/Berlin").tzinfo is not None
frame.to_excel("/session/f.xlsx")
""",
    "pyarrow": """
import pyarrow as pa, pyarrow.csv, pyarrow.dataset, pyarrow.parquet as pq
table = pa.table({"x": list(range(100_000)), "s": [str(i % 7) for i in range(100_000)]})
pq.write_table(table, "/session/t.parquet")
assert pq.read_table("/session/t.parquet", memory_map=True, use_threads=True).equals(table)
assert pyarrow.dataset.dataset("/session/t.parquet").to_table(filter=pyarrow.dataset.field("x") < 10).num_rows == 10
pa.csv.write_csv(table, "/session/t.csv")
assert pa.csv.read_csv("/session/t.csv").num_rows == 100_000
""",
    "sklearn with processes": """
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
x, y = make_classification(300, random_state=0)
assert cross_val_score(RandomForestClassifier(10, random_state=0), x, y, n_jobs=2).mean() > 0.7
""",
    "matplotlib": """
import os
os.environ["MPLCONFIGDIR"] = "/tmp/mpl"
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig("/session/p.png")
assert os.path.getsize("/session/p.png") > 1000
""",
    "multiprocessing": """
import multiprocessing as mp
from multiprocessing import shared_memory
def double(x): return 2 * x
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with mp.get_context(method).Pool(2) as pool:
            assert pool.map(double, range(5)) == [0, 2, 4, 6, 8], method
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.buf[0] = 7
    other = shared_memory.SharedMemory(block.name)
    assert other.buf[0] == 7
    other.close(); block.close(); block.unlink()
    queue = mp.Queue(); queue.put(1); assert queue.get(timeout=60) == 1
""",
    "threads": """
from concurrent.futures import ThreadPoolExecutor
import threading, time
with ThreadPoolExecutor(32) as pool:
    barrier = threading.Barrier(32)
    assert sum(pool.map(lambda i: barrier.wait(60) * 0 + 1, range(32))) == 32
""",
    "subprocess": """
import subprocess, os, signal
assert subprocess.run(["/bin/sh", "-c", "echo $((6*7)) | cat"], capture_output=True, text=True).stdout == "42\\n"
assert subprocess.run("ls /usr | wc -l", shell=True, capture_output=True).returncode == 0
child = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
child.send_signal(signal.SIGTERM); assert child.wait(60) == -signal.SIGTERM
pid = os.posix_spawn("/bin/true", ["true"], {}); assert os.waitpid(pid, 0)[1] == 0
fd = os.pidfd_open(os.getpid()); os.close(fd)
""",
    "asyncio": """
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec("/bin/echo", "hi", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out == b"hi\\n"
    async def serve(reader, writer):
        writer.write(await reader.readline()); await writer.drain(); writer.close()
    server = await asyncio.start_server(serve, "localhost", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    writer.write(b"x\\n"); assert await reader.readline() == b"x\\n"
    assert await asyncio.to_thread(lambda: 1) == 1
asyncio.run(main())
""",
    "names and network interfaces": """
import socket, psutil
assert socket.getaddrinfo("localhost", 80)
try: socket.getaddrinfo("example.org", 80)
except socket.gaierror: pass
else: raise AssertionError("there is no network")
assert set(psutil.net_if_addrs()) == {"lo"}
assert [name for _, name in socket.if_nameindex()] == ["lo"]
""",
    "psutil": """
import os, psutil
me = psutil.Process()
me.memory_full_info(); me.cpu_times(); me.open_files(); me.threads(); me.net_connections(); me.io_counters(); me.nice(); me.cpu_affinity()
psutil.virtual_memory(); psutil.cpu_percent(0.0); psutil.cpu_count(); psutil.disk_usage("/"); psutil.pids()
assert os.cpu_count() >= 1
""",
    "zmq": """
import zmq
context = zmq.Context()
for address in ("ipc:///tmp/socket", "tcp://127.0.0.1:5555", "inproc://x"):
    server, client = context.socket(zmq.REP), context.socket(zmq.REQ)
    server.bind(address); client.connect(address)
    client.send(b"hi"); assert server.recv() == b"hi"
""",
    "IPython's shell commands": """
from IPython.utils.process import system
assert system("test -t 1 && echo terminal") == 0
""",
    "temporary files, locks, links": """
import fcntl, mmap, os, resource, shutil, tempfile, time
with tempfile.NamedTemporaryFile(dir="/session") as file:
    file.write(b"x" * 5000); file.flush()
    fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_UN)
    shutil.copy2(file.name, "/tmp/copy"); os.link("/tmp/copy", "/tmp/link"); os.symlink("/tmp/copy", "/tmp/soft")
    os.utime("/tmp/copy", ns=(0, 0)); os.chmod("/tmp/copy", 0o600); os.truncate("/tmp/copy", 10)
    mmap.mmap(file.fileno(), 0)
os.mkfifo("/tmp/fifo"); os.memfd_create("m"); os.getrandom(8); os.eventfd(0)
resource.getrusage(resource.RUSAGE_CHILDREN); resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1); time.sleep(0)
shutil.rmtree("/session", ignore_errors=True)
""",
}


def binds(python):
    """The host's programs, the environment of `python` and its interpreter's prefix."""
    script = "import json, sys, sysconfig; print(json.dumps([sys.prefix, sys.base_prefix]))"
    prefixes = json.loads(subprocess.check_output([python, "-c", script], text=True))
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            yield {"type": "symlink", "target": str(path), "to": os.readlink(path)}
        elif path.exists():
            yield {"type": "bind", "source": str(path), "target": str(path), "read_only": True}
    for prefix in dict.fromkeys(prefixes):
        if not prefix.startswith("/usr"):
            yield {"type": "bind", "source": prefix, "target": prefix, "read_only": True}


def tmpfs(target, mode):
    return {"type": "tmpfs", "target": target, "size_bytes": 64 << 20, "mode": mode}


@pytest.fixture(scope="module")
def run(kernel_python):
    """Runs a program in a sandbox of its own; returns what it printed when it and all its processes have ended."""
    python = str(Path(kernel_python))
    ids = {"uid": SANDBOX_HOST_ID, "gid": SANDBOX_HOST_ID} if os.geteuid() == 0 else None
    devices = ["null", "zero", "full", "random", "urandom", "tty"]
    mounts = [
        tmpfs("/tmp", 0o1777),  # first: the environment may be below it
        *binds(python),
        *({"type": "device", "device": name} for name in devices),
        {"type": "pty"},
        {"type": "symlink", "target": "/dev/fd", "to": "/proc/self/fd"},
        {"type": "file", "target": "/etc/passwd", "content": "kernel:x:1000:1000::/session:/bin/sh\n"},
        tmpfs("/dev/shm", 0o1777),
        tmpfs("/session", 0o700),
    ]
    place = {"host_ids": ids, "hostname": "kernel", "mounts": mounts}
    env = {"HOME": "/session", "PATH": f"{Path(python).parent}:/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(code):
        # Its own exit status goes to its parent, who is not this test: it says by itself that it came to its end.
        main = "exec 0</dev/null; cat > /session/main.py <<'END'\n" + code + "\nEND\n" + f"{python} /session/main.py && echo all-well"
        program = {"argv": ["/bin/sh", "-c", main], "env": env, "cwd": "/session", "stdout": 2, "stderr": 2}
        plan = json.dumps({"place": place, "program": program})
        command = [JAIL, "exec", "--report-fd", "1"]
        done = subprocess.run(command, input=plan, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stdout
        return done.stderr

    return run


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_works(run, program):
    printed = run(PROGRAMS[program])
    assert printed.splitlines()[-1:] == ["all-well"], printed
