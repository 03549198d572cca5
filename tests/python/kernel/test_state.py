"""State of a process that is no variable: it holds from cell to cell, a branch has what its parent's next cell would have, and kernels
of one zygote have nothing of each other.
"""

import pytest
from branching import Family
from zygotes import HostZygote, Sandbox

IMPORTS = """
import asyncio, contextvars, decimal, locale, logging, os, random, signal, sys, tempfile, threading, warnings
import matplotlib, numpy as np, pandas as pd
"""
# `{name: (code that sets it, expression, its value)}`; after `IMPORTS`.
KINDS = {
    "a context variable": ("own = contextvars.ContextVar('own', default='no'); _ = own.set('yes')", "own.get()", "yes"),
    "precision of decimal": ("decimal.getcontext().prec = 50", "decimal.getcontext().prec", "50"),
    "traps of decimal": ("decimal.getcontext().traps[decimal.Inexact] = True", "decimal.getcontext().traps[decimal.Inexact]", "True"),
    "errors of numpy": ("_ = np.seterr(divide='raise')", "np.geterr()['divide']", "raise"),
    "numpy's print options": ("np.set_printoptions(precision=3)", "np.array([1.23456])", "[1.235]"),
    "locale": ("_ = locale.setlocale(locale.LC_ALL, 'C')", "locale.setlocale(locale.LC_ALL)", "C"),
    "filters of warnings": ("warnings.filterwarnings('error', message='ours')", "any(f[1] and f[1].pattern == 'ours' for f in warnings.filters)", "True"),
    "options of pandas": ("pd.set_option('display.max_rows', 7)", "pd.get_option('display.max_rows')", "7"),
    "parameters of matplotlib": ("matplotlib.rcParams['figure.dpi'] = 77", "matplotlib.rcParams['figure.dpi']", "77.0"),
    "the directory": ("os.chdir('/')", "os.getcwd()", "/"),
    "the environment": ("os.environ['OURS'] = 'set'", "os.environ.get('OURS')", "set"),
    "the umask": ("_ = os.umask(0o027)", "next(line.split()[1] for line in open('/proc/self/status') if line.startswith('Umask'))", "0027"),
    "a handler of signals": ("_ = signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "signal.getsignal(signal.SIGUSR1).name", "SIG_IGN"),
    "the path of imports": ("sys.path.insert(0, '/ours')", "sys.path[0]", "/ours"),
    "logging": ("logging.getLogger('ours').setLevel(5)", "logging.getLogger('ours').level", "5"),
    "an open file": ("file = tempfile.TemporaryFile('w+'); _ = file.write('text'); _ = file.seek(2)", "file.tell()", "2"),
    "the recursion limit": ("sys.setrecursionlimit(4321)", "sys.getrecursionlimit()", "4321"),
    "a generator of random numbers": ("mine = np.random.default_rng(5); _ = mine.random()", "mine.bit_generator.state['state']['state'] % 1000", None),
    "the results of cells": ("12345", "Out[max(Out)]", "12345"),
    "inputs": ("# of ours", "'# of ours' in ''.join(In[-3:])", "True"),
    "configuration of IPython": ("get_ipython().ast_node_interactivity = 'all'", "get_ipython().ast_node_interactivity", "all"),
    "a task": ("ticks = asyncio.get_running_loop().create_future(); task = asyncio.ensure_future(ticks)", "task.done()", "False"),
    "a hook": ("sys.displayhook_of_ours = 1; sys.excepthook_of_ours = len", "sys.excepthook_of_ours is len", "True"),
}
# What a process has without having set it.
ELSEWHERE = [name for name in KINDS if name not in (
    "a context variable", "the directory", "an open file", "a generator of random numbers", "the results of cells", "inputs", "a task", "a hook",
)]  # fmt: skip


def value(kernel, expression):
    """The printed value of an expression."""
    reply, out, _ = kernel.run(f"print({expression})")
    assert reply["status"] == "ok", reply
    return out.strip()


@pytest.fixture(scope="module")
def family(kernel_python):
    with Family(kernel_python) as family:
        assert family.kernel.run(IMPORTS)[0]["status"] == "ok"
        yield family


@pytest.fixture(scope="module")
def zygote(kernel_python):
    zygote = HostZygote(kernel_python, "numpy,pandas,matplotlib.pyplot")
    yield zygote
    zygote.close()


@pytest.mark.parametrize("ending", ["", "\nimport asyncio\nawait asyncio.sleep(0)"], ids=["a plain cell", "a cell that awaits"])
def test_it_holds_in_the_next_cell_and_in_a_branch(family, ending):
    kernel = family.kernel
    for name, (code, expression, wanted) in KINDS.items():
        reply, _, _ = kernel.run(code + ending)
        assert reply["status"] == "ok", (name, reply)
        ours = value(kernel, expression)
        assert wanted is None or ours == wanted, name
        branch = family.fork()
        assert value(branch, expression) == ours, name
        branch.close()


def test_it_holds_after_cells_that_fail_and_in_branches_of_branches(family):
    kernel = family.kernel
    reply, _, _ = kernel.run("decimal.getcontext().prec = 61; _ = np.seterr(over='raise')\nawait asyncio.sleep(0)\n1/0")
    assert reply["ename"] == "ZeroDivisionError"
    expression = "decimal.getcontext().prec, np.geterr()['over']"
    assert value(kernel, expression) == "61 raise"
    child = family.fork(family.fork())
    assert value(child, expression) == "61 raise"
    child.run("decimal.getcontext().prec = 9")
    assert (value(child, "decimal.getcontext().prec"), value(kernel, "decimal.getcontext().prec")) == ("9", "61")


def test_a_thread_is_named_that_a_branch_has_not(family):
    family.kernel.run("stop = threading.Event(); thread = threading.Thread(target=stop.wait, name='ours'); thread.start()")
    branch = family.fork()
    family.kernel.run("stop.set(); thread.join()")
    assert [one["name"] for one in branch.forked["hazards"] if one["kind"] == "python-thread"] == ["ours"]


def test_kernels_of_one_zygote_have_nothing_of_each_other(zygote):
    first, second = Sandbox(zygote), Sandbox(zygote)
    one, two = first.kernel(), second.kernel()
    for kernel in (one, two):
        assert kernel.run(IMPORTS)[0]["status"] == "ok"
    before = {name: value(two, KINDS[name][1]) for name in ELSEWHERE}
    for name in ELSEWHERE:
        assert one.run(KINDS[name][0])[0]["status"] == "ok", name
        assert value(one, KINDS[name][1]) == KINDS[name][2]
    third = first.kernel("third")
    assert third.run(IMPORTS)[0]["status"] == "ok"
    for kernel in (two, third):
        assert {name: value(kernel, KINDS[name][1]) for name in before} == before
    for sandbox in (first, second):
        assert sandbox.end()["op"] == "exited"
