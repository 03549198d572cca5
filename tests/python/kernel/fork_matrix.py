"""Libraries and objects with state that a fork can break, and what a fork makes of each: for the tests and the soak."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Works:
    """State that works on in parent and branch. `after` prints something; `warned`: kinds of hazards that are reported."""

    name: str
    module: str
    before: str
    after: str
    warned: frozenset = frozenset()


@dataclass(frozen=True)
class Refused:
    """State that refuses a fork until `after` was run, which may be nothing that there is: then permanently.

    `kinds`: those of the hazards; `says`: words in the reason.
    """

    name: str
    module: str
    before: str
    after: str | None
    kinds: frozenset
    says: tuple


@dataclass(frozen=True)
class Warned:
    """State that a fork reports. In the branch `inside` prints `printed`, in the parent `still_works` prints True."""

    name: str
    before: str
    inside: str
    printed: str
    still_works: str
    after: str
    kinds: frozenset


def need(kernel, module):
    """Let a kernel find a library: some are not in the kernels' environment, and `make` puts them beside it."""
    folder = os.environ["HIMALIA_TEST_LIBRARIES"]
    code = (
        f"import sys; {folder!r} in sys.path or sys.path.append({folder!r})\n"
        f"import importlib.util; print(importlib.util.find_spec({module!r}) is not None)"
    )
    assert kernel.run(code)[1] == "True\n", f"{module} is missing"


_NUMBA = """
import numba, numpy as np
numba.config.THREADING_LAYER = '{layer}'
@numba.njit(parallel=True)
def total(a):
    s = 0.0
    for i in numba.prange(len(a)): s += a[i]
    return s
ones = np.ones(100_000); total(ones)
"""
# numba guards its start of threads with a lock of multiprocessing's.
_NUMBA_WARNS = frozenset({"semaphores"})

WORKS = [
    Works(
        "openblas",
        "numpy",
        "import numpy as np; a = np.random.rand(700, 700); a @ a",
        "print((a @ a).shape)",
    ),
    Works(
        "openmp-kmeans",
        "sklearn",
        "from sklearn.cluster import KMeans; import numpy as np\n"
        "data = np.random.rand(5000, 10); KMeans(8, n_init=1).fit(data)",
        "print(len(KMeans(8, n_init=1).fit(data).cluster_centers_))",
    ),
    Works(
        "openmp-boosting",
        "sklearn",
        "from sklearn.ensemble import HistGradientBoostingRegressor as H; import numpy as np\n"
        "data = np.random.rand(2000, 5); H(max_iter=3).fit(data, data[:, 0])",
        "print(H(max_iter=3).fit(data, data[:, 0]).n_iter_)",
    ),
    Works(
        "forest-threads",
        "sklearn",
        "from sklearn.ensemble import RandomForestRegressor as R; import numpy as np\n"
        "data = np.random.rand(500, 5); R(10, n_jobs=2).fit(data, data[:, 0])",
        "print(len(R(10, n_jobs=2).fit(data, data[:, 0]).estimators_))",
    ),
    Works(
        "arrow",
        "pyarrow",
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "t = pa.table({'a': list(range(50000)), 'b': ['x', 'y'] * 25000}); pq.write_table(t, 't.parquet')\n"
        "pq.read_table('t.parquet'); t.group_by('b').aggregate([('a', 'sum')])",
        "print(len(pq.read_table('t.parquet').group_by('b').aggregate([('a', 'sum')])))",
    ),
    Works(
        "thread-pool",
        "concurrent.futures",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(2); list(pool.map(abs, range(10)))",
        "print(list(pool.map(abs, [-1, 2])))",
    ),
    Works(
        "to-thread",
        "asyncio",
        "import asyncio; await asyncio.to_thread(abs, 1)",
        "print(await asyncio.to_thread(abs, -2))",
    ),
    Works(
        "new-pool",
        "multiprocessing",
        "import multiprocessing as mp",
        "import gc\nwith mp.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, 2]))\n"
        "pool.join(); del pool; gc.collect();",
    ),
    Works(
        "fork-server",
        "multiprocessing",
        "import multiprocessing as mp\n"
        "p = mp.get_context('forkserver').Process(target=abs, args=(1,)); p.start(); p.join(); p.close()",
        "p = mp.get_context('forkserver').Process(target=abs, args=(1,)); p.start(); p.join(); print(p.exitcode)",
    ),
    Works(
        "in-memory-sqlite",
        "sqlite3",
        "import sqlite3; s = sqlite3.connect(':memory:'); s.execute('create table t as select 1')",
        "print(s.execute('select * from t').fetchall())",
    ),
    Works(
        "lightgbm",
        "lightgbm",
        "import lightgbm as lgb, numpy as np\n"
        "data = np.random.rand(2000, 5); lgb.LGBMRegressor(n_estimators=3, verbose=-1).fit(data, data[:, 0])",
        "print(lgb.LGBMRegressor(n_estimators=3, verbose=-1).fit(data, data[:, 0]).n_iter_)",
    ),
    Works("numba-openmp", "numba", _NUMBA.format(layer="omp"), "print(total(ones))", _NUMBA_WARNS),
    Works("numba-workqueue", "numba", _NUMBA.format(layer="workqueue"), "print(total(ones))", _NUMBA_WARNS),
    Works(
        "numexpr",
        "numexpr",
        "import numexpr as ne, numpy as np; one = np.ones(1_000_000); ne.evaluate('a * 2', {'a': one})",
        "print(ne.evaluate('a * 3', {'a': one}).sum())",
    ),
    Works(
        "polars-imported",
        "polars",
        "import polars as pl",
        "print(pl.DataFrame({'a': [1, 2]}).group_by('a').sum().shape)",
    ),
    Works(
        "duckdb-closed",
        "duckdb",
        "import duckdb; count = 'select sum(range) from range(3_000_000)'\n"
        "c = duckdb.connect(); c.sql(count).fetchall(); c.close()",
        "with duckdb.connect() as c: print(c.sql(count).fetchall())",
    ),
    Works(
        "requests-keep-alive",
        "requests",
        # The server is in the parent, so the branch has none; both ask the parent's.
        "import requests, http.server, threading\n"
        "class Answer(http.server.BaseHTTPRequestHandler):\n"
        "    protocol_version = 'HTTP/1.1'\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers()\n"
        "        self.wfile.write(b'ok')\n"
        "    def log_message(self, *_): pass\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer); server.daemon_threads = True\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "kept = requests.Session(); url = f'http://127.0.0.1:{server.server_port}/'; kept.get(url)",
        "print(kept.get(url, timeout=20).text)",
        frozenset({"python-thread"}),
    ),
]


REFUSED = [
    Refused(
        "mp-pool",
        "multiprocessing",
        "import multiprocessing as mp; p = mp.get_context('fork').Pool(1); p.map(abs, [1])",
        "p.terminate(); p.join(); del p",
        frozenset({"multiprocessing", "process-pool"}),
        ("multiprocessing pool",),
    ),
    Refused(
        "process-executor",
        "concurrent.futures",
        "from concurrent.futures import ProcessPoolExecutor as E; e = E(1); e.submit(abs, 1).result()",
        "e.shutdown(); del e",
        frozenset({"multiprocessing", "process-pool"}),
        ("ProcessPoolExecutor",),
    ),
    Refused(
        "unknown-native-thread",
        "ctypes",
        # A thread of the C library that Python knows nothing of.
        "import ctypes; libc = ctypes.CDLL(None); native = ctypes.c_ulong()\n"
        "libc.pthread_create(ctypes.byref(native), None, libc.pause, None)",
        "libc.pthread_cancel(native); libc.pthread_join(native, None)",
        frozenset({"native-thread"}),
        ("unknown library", "fork again"),
    ),
    Refused(
        "openmp-in-a-thread",
        "sklearn",
        "import threading, numpy as np; from sklearn.cluster import KMeans\n"
        "def work():\n    KMeans(8, n_init=1).fit(np.random.rand(5000, 10)); done.set(); go.wait()\n"
        "done, go = threading.Event(), threading.Event(); t = threading.Thread(target=work); t.start(); done.wait()",
        "go.set(); t.join()",
        frozenset({"openmp"}),
        ("OpenMP", "let that thread end"),
    ),
    Refused(
        "duckdb-file",
        "os",
        "f = open('x.duckdb', 'w+b'); f.write(bytes(8) + b'DUCK' + bytes(100)); f.flush()",
        "f.close()",
        frozenset({"database"}),
        ("DuckDB", "one process"),
    ),
    Refused(
        "duckdb",
        "duckdb",
        "import duckdb; c = duckdb.connect(); c.sql('select sum(range) from range(3_000_000)').fetchall()",
        "c.close()",
        frozenset({"native-thread"}),
        ("DuckDB", "con.close()"),
    ),
    Refused(
        "grpc",
        "grpc",
        "import grpc; channel = grpc.insecure_channel('127.0.0.1:1')\n"
        "try: channel.unary_unary('/a/b')(b'', timeout=5)\n"
        "except grpc.RpcError as error: print(error.code())",
        "channel.close(); del channel",
        frozenset({"native-thread"}),
        ("gRPC", "channel.close()"),
    ),
    Refused(
        "polars",
        "polars",
        "import polars as pl; pl.DataFrame({'a': [1, 2]}).group_by('a').sum()",
        None,
        frozenset({"polars"}),
        ("polars", "subprocess"),
    ),
]


WARNED = [
    Warned(
        "lock-of-a-thread",
        "import threading; lock, go, held = threading.Lock(), threading.Event(), threading.Event()\n"
        "def work():\n    with lock: held.set(); go.wait()\n"
        "t = threading.Thread(target=work); t.start(); held.wait()",
        "print(lock.acquire(timeout=0.1))",
        "False\n",
        "print(t.is_alive() and lock.locked())",
        "go.set(); t.join()",
        frozenset({"python-thread"}),
    ),
    Warned(
        "busy-pool",
        "import threading; from concurrent.futures import ThreadPoolExecutor\n"
        "go, held = threading.Event(), threading.Event()\n"
        "p2 = ThreadPoolExecutor(1); f = p2.submit(lambda: (held.set(), go.wait())); held.wait()",
        "print(p2.submit(abs, -1).result(10))",
        "1\n",
        "print(not f.done())",
        "go.set(); f.result(); p2.shutdown()",
        frozenset({"python-thread"}),
    ),
    Warned(
        "shared-memory",
        "import mmap; m = mmap.mmap(-1, 4096)",
        "print(m[0])",
        "0\n",
        "m[0] = 0; print(m[0] == 0)",
        "m.close()",
        frozenset({"shared-memory"}),
    ),
    Warned(
        "sqlite-file",
        "import sqlite3; d = sqlite3.connect('d.sqlite'); d.execute('create table t as select 1 a'); d.commit()",
        "print(d.execute('select a from t').fetchall())",
        "[(1,)]\n",
        "d.execute('insert into t values (2)'); d.commit(); print(True)",
        "d.close()",
        frozenset({"database"}),
    ),
    Warned(
        "joblib-workers",
        "import operator; from joblib import Parallel, delayed; Parallel(n_jobs=2)(delayed(abs)(n) for n in range(4))",
        "print(Parallel(n_jobs=2)(delayed(operator.neg)(n) for n in range(2)))",
        "[0, -1]\n",
        "print(Parallel(n_jobs=2)(delayed(abs)(n) for n in range(2)) == [0, 1])",
        "from joblib.externals.loky import get_reusable_executor as g; g().shutdown(wait=True, kill_workers=True)",
        frozenset({"process-pool", "python-thread", "semaphores"}),
    ),
    Warned(
        "subprocess",
        "import subprocess; child = subprocess.Popen(['sleep', '1000'])",
        "print(child.poll())",
        "0\n",
        "print(child.poll() is None)",
        "child.kill(); child.wait()",
        frozenset({"child-process"}),
    ),
]
