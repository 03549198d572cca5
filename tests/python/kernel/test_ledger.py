"""Each reply says which variables the execution added, changed and removed."""

import pytest
from branching import Family
from observed import about, run
from rawkernel import RawKernel
from zygotes import HostZygote, Sandbox

NOTHING = {"added": [], "changed": [], "removed": [], "truncated": False}


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python)
    run(kernel, "import numpy as np, pandas as pd")
    yield kernel
    kernel.close()


def variables(kernel, code, **more):
    reply = run(kernel, code, **more)
    assert reply["content"]["status"] == "ok", reply["content"]
    return reply["metadata"]["himalia"]["variables"]


def test_added_changed_and_removed(kernel):
    assert variables(kernel, "x = 1; y = [1]") == NOTHING | {"added": ["x", "y"]}
    assert variables(kernel, "x = 2; y.append(1); z = None") == NOTHING | {"added": ["z"], "changed": ["x", "y"]}
    assert variables(kernel, "del x, y\nz") == NOTHING | {"removed": ["x", "y"]}
    assert variables(kernel, "pass") == NOTHING
    assert variables(kernel, "In, Out, _, __, _i, _i1; _dh; exit; 5") == NOTHING
    assert variables(kernel, "x = 1; exit = 5; _mine = 1") == NOTHING | {"added": ["_mine", "exit", "x"]}
    assert variables(kernel, "del exit, _mine, z, x")["removed"] == ["_mine", "exit", "x", "z"]


def test_a_name_bound_to_the_same_constant_did_not_change(kernel):
    variables(kernel, "number = 3; text = 'a'; items = [1]")
    assert variables(kernel, "number = 3; text = ''.join('a')") == NOTHING
    assert variables(kernel, "number = 3.0; items = [1]")["changed"] == ["items", "number"]


CHANGES = {
    "deep in a list": ("v = [{'a': [1]}]", "v[0]['a'].append(2)"),
    "an item of a list": ("v = [1.5, 2.5]", "v[1] = 3.5"),
    "the end of a long list": ("v = list(range(100_000))", "v[-1] = None"),
    "a dict": ("v = {'a': 1}", "v['a'] = 2"),
    "a set": ("v = {1, 2}", "v.remove(2); v.add(3)"),
    "an attribute": ("class Box: pass\nv = Box()", "v.a = 1"),
    "an attribute's value": ("class Box: pass\nv = Box(); v.a = 1", "v.a = 2"),
    "slots": ("class Slots: __slots__ = ('a',)\nv = Slots(); v.a = 1", "v.a = 2"),
    "a list in an attribute": ("class Box: pass\nv = Box(); v.a = []", "v.a.append(1)"),
    "an element of an array": ("v = np.zeros((50, 50))", "v[20, 30] = 1"),
    "all of a large array": ("v = np.zeros(1_000_000)", "v += 1"),
    "a slice of an array in Fortran order": ("v = np.zeros((100, 100), order='F')", "v[:, 7] = 1"),
    "an array of objects": ("v = np.array([1, 'a', None], dtype=object)", "v[0] = 2"),
    "dates": ("v = np.array(['2020-01-01'], dtype='M8[D]')", "v += 1"),
    "a value of a frame": ("v = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", "v.loc[1, 'a'] = 7"),
    "a text of a frame": ("v = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", "v.loc[1, 'b'] = 'z'"),
    "a category": ("v = pd.DataFrame({'a': pd.Categorical(['x', 'y'])})", "v.loc[1, 'a'] = 'x'"),
    "a nullable number": ("v = pd.DataFrame({'a': pd.array([1, 2])})", "v.loc[1, 'a'] = None"),
    "a date of a frame": ("v = pd.DataFrame({'a': pd.to_datetime(['2020', '2021'])})", "v.loc[1, 'a'] = v.a[0]"),
    "a new column": ("v = pd.DataFrame({'a': [1]})", "v['b'] = 1"),
    "a column's name": ("v = pd.DataFrame({'a': [1]})", "v.columns = ['b']"),
    "a series": ("v = pd.Series([1, 2])", "v[0] = 5"),
}


@pytest.mark.parametrize("made, changed", CHANGES.values(), ids=CHANGES)
def test_a_change_in_place_is_seen(kernel, made, changed):
    variables(kernel, made)
    variables(kernel, "v, str(v)")
    assert variables(kernel, changed)["changed"] == ["v"]


def test_reading_is_no_change(kernel):
    variables(kernel, "frame = pd.DataFrame({'a': [1, 2]}); frame['b'] = 1.5; frame['c'] = 2.5; array = np.arange(9)")
    reading = "frame.describe(); frame.values; str(frame); frame.sort_values('b'); frame.sum(); array.sum(); frame.T;"
    assert variables(kernel, reading) == NOTHING


HOSTILE = """
import sys
class Meta(type):
    def __getattribute__(cls, name): ran.append("meta"); return type.__getattribute__(cls, name)
    def __eq__(cls, other): ran.append("meta eq"); return True
    def __hash__(cls): ran.append("meta hash"); return 1
class Hostile(metaclass=Meta):
    def __getattribute__(self, name): ran.append(name); raise ValueError(name)
    def __repr__(self): ran.append("repr"); return "x"
    def __eq__(self, other): ran.append("eq"); raise ValueError
    def __hash__(self): ran.append("hash"); raise ValueError
    def __len__(self): ran.append("len"); raise ValueError
    def __sizeof__(self): ran.append("sizeof"); raise ValueError
    def __bool__(self): ran.append("bool"); raise ValueError
ran = []
hostile = Hostile(); held = [hostile, {"a": hostile}, (hostile,)]; cells = np.empty(1, dtype=object); cells[0] = hostile
ran.clear()
"""


def test_no_code_of_the_user_runs(kernel):
    assert "hostile" in variables(kernel, HOSTILE)["added"]
    assert variables(kernel, "other = 1; held.append(hostile)")["changed"] == ["held"]
    variables(kernel, "del other")
    assert kernel.run("print(ran)")[1] == "[]\n"


def test_no_object_is_kept_alive(kernel):
    variables(kernel, "import weakref\nkept = np.zeros(10); gone = weakref.ref(kept)")
    assert kernel.run("del kept; print(gone())")[1] == "None\n"


def test_silent_executions_say_nothing(kernel):
    assert about(kernel, "quiet = 1", silent=True) is None
    assert variables(kernel, "loud = 1")["added"] == ["loud", "quiet"]
    assert variables(kernel, "no_history = 1", store_history=False)["added"] == ["no_history"]


def test_a_failed_execution_says_what_it_had_done(kernel):
    reply = run(kernel, "before = 1\nboom")
    assert reply["content"]["status"] == "error"
    assert reply["metadata"]["himalia"]["variables"]["added"] == ["before"]


def test_an_aborted_execution_says_nothing(kernel):
    first = kernel.execute("import time; time.sleep(0.2); boom")
    second = kernel.execute("never = 1")
    replies = {}
    while len(replies) < 2:
        message = kernel.receive("shell")
        replies[message["parent_header"]["msg_id"]] = message
    assert replies[first]["metadata"]["himalia"]["error"]["line"] == 1
    assert replies[second]["content"]["status"] == "aborted"
    assert "himalia" not in replies[second]["metadata"]


def test_many_names_are_cut_and_said_so(kernel):
    changes = variables(kernel, "globals().update({f'n{i:04}': i for i in range(500)})")
    assert changes["truncated"] and changes["added"][:2] == ["n0000", "n0001"] and len(changes["added"]) == 200
    assert variables(kernel, "n0001 = -1") == NOTHING | {"changed": ["n0001"]}


def test_names_that_are_no_names_are_left_out(kernel):
    assert variables(kernel, "globals()[5] = globals()['x' * 1000] = 1") == NOTHING
    assert variables(kernel, "del globals()[5], globals()['x' * 1000]") == NOTHING


def test_kernels_of_a_zygote_and_branches_have_ledgers_of_their_own(kernel_python):
    zygote = HostZygote(kernel_python, "numpy")
    sandbox = Sandbox(zygote)
    try:
        forked = sandbox.kernel()
        assert variables(forked, "x = 1; y = [1]") == NOTHING | {"added": ["x", "y"]}
        assert variables(forked, "y.append(2)") == NOTHING | {"changed": ["y"]}
        forked.disconnect()
    finally:
        sandbox.end()
        zygote.close()
    with Family(kernel_python) as family:
        assert variables(family.kernel, "x = [1]")["added"] == ["x"]
        branch = family.fork()
        assert variables(branch, "x.append(1); only = 1") == NOTHING | {"added": ["only"], "changed": ["x"]}
        assert variables(family.kernel, "y = 1") == NOTHING | {"added": ["y"]}


def test_executions_in_subshells_are_observed(kernel):
    shell = kernel.request("create_subshell_request", {}, "control")["subshell_id"]
    header = kernel.session.msg("execute_request", {"code": "from_subshell = 1\nnowhere", "silent": False})
    header["header"]["subshell_id"] = shell
    kernel.session.send(kernel.shell, header)
    reply = kernel.receive("shell")
    assert reply["metadata"]["himalia"]["variables"]["added"] == ["from_subshell"]
    assert reply["metadata"]["himalia"]["error"]["source"] == "nowhere"
    kernel.request("delete_subshell_request", {"subshell_id": shell}, "control")


LARGE = """
big = pd.DataFrame({"n": range(20_000), "m": 0.5}); arr = np.zeros(50_000); table = {n: n for n in range(500)}
class Box: pass
box = Box(); box.rows = list(range(1000)); other = np.zeros(50_000)
"""


@pytest.mark.parametrize(
    "code, name",
    [
        ("big.at[12345, 'n'] = 99", "big"),
        ("big.iloc[7000:7010, 1] = -1", "big"),
        ("arr[5000] = 1", "arr"),
        ("for position in (5001,):\n    arr[position] += 2", "arr"),
        ("table[250] = 'x'", "table"),
        ("box.rows[500] = 'x'", "box"),
        ("!true\narr[5003], _ = 1, 2", "arr"),
    ],
)
def test_a_large_object_that_the_code_assigns_into_has_changed(kernel, code, name):
    variables(kernel, LARGE)
    assert name in variables(kernel, code)["changed"]
    assert variables(kernel, f"{name}; other[0] == 1; max({name}[0:1], key=str) if False else None")["changed"] == []
    kept = f"def later():\n    {name}[0] = 1"
    assert variables(kernel, kept)["changed"] in ([], ["later"])
