"""Libraries with state that a fork can break: used in the parent, forked, used in the branch and in the parent again."""

import os

import pytest
from branching import Family, request_fork
from processes import alive
from waiting import eventually

# Name, modules that must be installed, code before the fork, code in both afterwards.
WORKS = [
    ("openblas", "numpy", "import numpy as np; a = np.random.rand(700, 700); a @ a", "print((a @ a).shape)"),
    (
        "openmp-kmeans",
        "sklearn",
        "from sklearn.cluster import KMeans; import numpy as np\n"
        "data = np.random.rand(5000, 10); KMeans(8, n_init=1).fit(data)",
        "print(len(KMeans(8, n_init=1).fit(data).cluster_centers_))",
    ),
    (
        "openmp-boosting",
        "sklearn",
        "from sklearn.ensemble import HistGradientBoostingRegressor as H; import numpy as np\n"
        "data = np.random.rand(2000, 5); H(max_iter=3).fit(data, data[:, 0])",
        "print(H(max_iter=3).fit(data, data[:, 0]).n_iter_)",
    ),
    (
        "forest-threads",
        "sklearn",
        "from sklearn.ensemble import RandomForestRegressor as R; import numpy as np\n"
        "data = np.random.rand(500, 5); R(10, n_jobs=2).fit(data, data[:, 0])",
        "print(len(R(10, n_jobs=2).fit(data, data[:, 0]).estimators_))",
    ),
    (
        "arrow",
        "pyarrow",
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "t = pa.table({'a': list(range(50000)), 'b': ['x', 'y'] * 25000}); pq.write_table(t, 't.parquet')\n"
        "pq.read_table('t.parquet'); t.group_by('b').aggregate([('a', 'sum')])",
        "print(len(pq.read_table('t.parquet').group_by('b').aggregate([('a', 'sum')])))",
    ),
    (
        "thread-pool",
        "concurrent.futures",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(2); list(pool.map(abs, range(10)))",
        "print(list(pool.map(abs, [-1, 2])))",
    ),
    (
        "to-thread",
        "asyncio",
        "import asyncio; await asyncio.to_thread(abs, 1)",
        "print(await asyncio.to_thread(abs, -2))",
    ),
    (
        "new-pool",
        "multiprocessing",
        "import multiprocessing as mp",
        "import gc\nwith mp.get_context('fork').Pool(2) as pool: print(pool.map(abs, [-1, 2]))\n"
        "pool.join(); del pool; gc.collect();",
    ),
    (
        "in-memory-sqlite",
        "sqlite3",
        "import sqlite3; s = sqlite3.connect(':memory:'); s.execute('create table t as select 1')",
        "print(s.execute('select * from t').fetchall())",
    ),
]


@pytest.fixture(scope="module")
def family(kernel_python):
    with Family(kernel_python) as family:
        yield family


@pytest.fixture
def kernel(family):
    return family.kernel


def need(kernel, module):
    """Some libraries are not in the kernels' environment: `make test-python` puts them beside it."""
    folder = os.environ["HIMALIA_TEST_LIBRARIES"]
    code = f"import sys; {folder!r} in sys.path or sys.path.append({folder!r}); import importlib.util; print(importlib.util.find_spec({module!r}) is not None)"
    assert kernel.run(code)[1] == "True\n", f"{module} is missing"


@pytest.mark.parametrize(("module", "before", "after"), [row[1:] for row in WORKS], ids=[row[0] for row in WORKS])
def test_what_works_in_both(family, kernel, module, before, after):
    need(kernel, module)
    assert kernel.run(before)[0]["status"] == "ok"
    branch = family.fork()
    assert branch.forked["hazards"] == []
    for side in (branch, kernel):
        reply, out, _ = side.run(after, timeout=30)
        assert reply["status"] == "ok", reply
        assert out
    branch.close()


# Threads or pools that stay for the life of the process.
FOR_GOOD = [
    ("numexpr", "import numexpr as ne, numpy as np; ne.evaluate('a * 2', {'a': np.ones(2_000_000)})", "native-thread"),
    ("duckdb", "import duckdb; duckdb.sql('select sum(range) from range(10_000_000)').fetchall()", "native-thread"),
    ("polars", "import polars as pl; pl.DataFrame({'a': [1, 2]}).group_by('a').sum()", "polars"),
]


@pytest.mark.parametrize(("module", "code", "kind"), FOR_GOOD, ids=[row[0] for row in FOR_GOOD])
def test_what_is_refused_for_good(kernel_python, module, code, kind):
    with Family(kernel_python) as family:
        need(family.kernel, module)
        assert family.kernel.run(code)[0]["status"] == "ok"
        content, _ = request_fork(family.kernel)
        assert content["ename"] == "ForkHazard", content
        assert (kind, "refuse") in kinds(content)
        assert family.kernel.run("print(6 * 7)")[1] == "42\n"


def kinds(content):
    return {(hazard["kind"], hazard["severity"]) for hazard in content["hazards"]}


REFUSED = [
    (
        "mp-pool",
        "multiprocessing",
        "import multiprocessing as mp; p = mp.get_context('fork').Pool(1); p.map(abs, [1])",
        "p.terminate(); p.join(); del p",
        {("multiprocessing", "refuse"), ("process-pool", "refuse")},
    ),
    (
        "process-executor",
        "concurrent.futures",
        "from concurrent.futures import ProcessPoolExecutor as E; e = E(1); e.submit(abs, 1).result()",
        "e.shutdown(); del e",
        {("multiprocessing", "refuse"), ("process-pool", "refuse")},
    ),
    (
        "unknown-native-thread",
        "ctypes",
        # A thread of the C library that Python knows nothing of.
        "import ctypes; libc = ctypes.CDLL(None); native = ctypes.c_ulong()\n"
        "libc.pthread_create(ctypes.byref(native), None, libc.pause, None)",
        "libc.pthread_cancel(native); libc.pthread_join(native, None)",
        {("native-thread", "refuse")},
    ),
    (
        "openmp-in-a-thread",
        "sklearn",
        "import threading, numpy as np; from sklearn.cluster import KMeans\n"
        "def work():\n    KMeans(8, n_init=1).fit(np.random.rand(5000, 10)); done.set(); go.wait()\n"
        "done, go = threading.Event(), threading.Event(); t = threading.Thread(target=work); t.start(); done.wait()",
        "go.set(); t.join()",
        {("openmp", "refuse")},
    ),
    (
        "duckdb-file",
        "os",
        "f = open('x.duckdb', 'w+b'); f.write(bytes(8) + b'DUCK' + bytes(100)); f.flush()",
        "f.close()",
        {("database", "refuse")},
    ),
]


@pytest.mark.parametrize(
    ("module", "before", "after", "expected"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_is_refused_until_it_is_gone(family, kernel, module, before, after, expected):
    need(kernel, module)
    try:
        assert kernel.run(before)[0]["status"] == "ok"
        reply, _ = request_fork(kernel)
        assert (reply["status"], reply["ename"]) == ("error", "ForkHazard"), reply
        assert {kind for kind in kinds(reply) if kind[1] == "refuse"} == expected
    finally:
        assert kernel.run(after + "\nimport gc; gc.collect();")[0]["status"] == "ok"
    branch = family.fork()
    assert kinds(branch.forked) == set()
    branch.close()


WARNED = [
    (
        "lock-of-a-thread",
        "import threading; lock, go, held = threading.Lock(), threading.Event(), threading.Event()\n"
        "def work():\n    with lock: held.set(); go.wait()\n"
        "t = threading.Thread(target=work); t.start(); held.wait()",
        "print(lock.acquire(timeout=0.1))",
        "False\n",
        "print(t.is_alive() and lock.locked())",
        "go.set(); t.join()",
        {("python-thread", "warn")},
    ),
    (
        "busy-pool",
        "import threading; from concurrent.futures import ThreadPoolExecutor\n"
        "go, held = threading.Event(), threading.Event()\n"
        "p2 = ThreadPoolExecutor(1); f = p2.submit(lambda: (held.set(), go.wait())); held.wait()",
        "print(p2.submit(abs, -1).result(10))",
        "1\n",
        "print(not f.done())",
        "go.set(); f.result(); p2.shutdown()",
        {("python-thread", "warn")},
    ),
    (
        "shared-memory",
        "import mmap; m = mmap.mmap(-1, 4096)",
        "print(m[0])",
        "0\n",
        "m[0] = 0; print(m[0] == 0)",
        "m.close()",
        {("shared-memory", "warn")},
    ),
    (
        "sqlite-file",
        "import sqlite3; d = sqlite3.connect('d.sqlite'); d.execute('create table t as select 1 a'); d.commit()",
        "print(d.execute('select a from t').fetchall())",
        "[(1,)]\n",
        "d.execute('insert into t values (2)'); d.commit(); print(True)",
        "d.close()",
        {("database", "warn")},
    ),
    (
        "joblib-workers",
        "import operator; from joblib import Parallel, delayed; Parallel(n_jobs=2)(delayed(abs)(n) for n in range(4))",
        "print(Parallel(n_jobs=2)(delayed(operator.neg)(n) for n in range(2)))",
        "[0, -1]\n",
        "print(Parallel(n_jobs=2)(delayed(abs)(n) for n in range(2)) == [0, 1])",
        "from joblib.externals.loky import get_reusable_executor as g; g().shutdown(wait=True, kill_workers=True)",
        {("process-pool", "warn"), ("python-thread", "warn"), ("semaphores", "warn")},
    ),
]


@pytest.mark.parametrize(
    ("before", "inside", "printed", "still_works", "after", "expected"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED]
)
def test_what_is_reported(family, kernel, before, inside, printed, still_works, after, expected):
    try:
        assert kernel.run(before)[0]["status"] == "ok"
        branch = family.fork()
        assert kinds(branch.forked) == expected
        reply, out, _ = branch.run(inside, timeout=30)
        assert out == printed, reply
        # Its end must not take anything of the parent's with it.
        assert branch.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
        eventually(lambda: not alive(branch.pid), "the branch ends")
        assert kernel.run(still_works)[1] == "True\n"
    finally:
        assert kernel.run(after)[0]["status"] == "ok"


def test_the_debugger_is_refused(kernel_python):
    from test_start import debug

    with Family(kernel_python) as family:
        # JupyterLab asks this of every kernel; it starts nothing yet.
        assert debug(family.kernel, 1, "debugInfo")["body"]["isStarted"] is False
        branch = family.fork()
        assert debug(branch, 1, "debugInfo")["body"]["isStarted"] is False
        arguments = dict(clientID="t", adapterID="t", pathFormat="path", linesStartAt1=True, columnsStartAt1=True)
        assert debug(branch, 2, "initialize", **arguments)["success"]
        reply, _ = request_fork(branch)
        assert reply["ename"] == "ForkHazard" and ("debugger", "refuse") in kinds(reply)
        assert family.kernel.run("print(1)")[1] == "1\n"
        assert os.path.exists(f"/proc/{branch.pid}")
