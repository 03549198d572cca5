"""Variables are listed and read over the control channel, also while a cell runs, and whatever they are."""

import sys

import pytest
from branching import Family
from observed import run
from rawkernel import PACKAGE, RawKernel
from waiting import eventually

sys.path.insert(0, str(PACKAGE))
from himalia_kernel.queries import Query  # noqa: E402

SETUP = """
import numpy as np, pandas as pd, time, sys
from pathlib import Path
number = 3; text = "abc" * 1000; items = [1, "two", [3, {"k": (4, [5, [6]])}]]; mapping = {"a": 1, 2: None}
array = np.arange(12).reshape(3, 4)
frame = pd.DataFrame({"a": [3, 1, None, 2], "b": ["x", "y", "z", "xy"], "d": pd.to_datetime(["2020", "2021", None, "2022"]),
                      "c": pd.Categorical(["u", "v", "u", "v"])})
series = frame.set_index("b").a
"""


@pytest.fixture(scope="module")
def kernel(kernel_python):
    kernel = RawKernel(kernel_python)
    reply = run(kernel, SETUP)
    assert reply["content"]["status"] == "ok", reply["content"]
    yield kernel
    kernel.close()


def ask(kernel, timeout=60.0, **content):
    """The whole reply."""
    msg_id = kernel.send("himalia_variables_request", content, "control")
    while True:
        message = kernel.receive("control", timeout)
        if message["parent_header"].get("msg_id") == msg_id:
            assert message["msg_type"] == "himalia_variables_reply"
            return message


def page(kernel, name, **content):
    reply = ask(kernel, name=name, **content)["content"]
    assert reply["status"] == "ok", reply
    return reply["page"]


def rows_of(kernel):
    reply = ask(kernel)["content"]
    assert reply["status"] == "ok", reply
    return {row["name"]: row for row in reply["variables"]}


def test_the_list(kernel):
    rows = rows_of(kernel)
    assert not {"In", "Out", "_", "exit", "get_ipython", "__name__"} & rows.keys()
    assert rows["number"] == {
        "name": "number", "type": "int", "module": "builtins", "shape": None, "dtype": None, "bytes": 28, "length": None,
        "preview": "3",
    }  # fmt: skip
    assert (rows["text"]["length"], len(rows["text"]["preview"])) == (3000, 200)
    assert rows["items"]["preview"] == "[1, 'two', [3, {'k': (…)}]]"
    assert rows["mapping"]["preview"] == "{'a': 1, 2: None}"
    assert (rows["array"]["shape"], rows["array"]["dtype"], rows["array"]["bytes"]) == ([3, 4], "int64", 96)
    assert rows["frame"]["shape"] == [4, 4] and rows["frame"]["preview"].startswith("'a': float64, 'b': object")
    assert (rows["series"]["type"], rows["series"]["module"], rows["series"]["dtype"]) == ("Series", "pandas.core.series", "float64")
    assert rows["np"]["preview"] == "<module numpy>"


def test_a_frame_in_pages(kernel):
    found = page(kernel, "frame", page={"offset": 1, "limit": 2})
    assert (found["total"], found["matched"], found["index"], found["cut"]) == (4, 4, [1, 2], False)
    assert found["rows"] == [[1.0, "y", "2021-01-01T00:00:00", "v"], [None, "z", None, "u"]]
    assert [column["name"] for column in found["columns"]] == ["a", "b", "d", "c"]
    assert page(kernel, "frame", page={"offset": 100})["rows"] == []


def test_sorted_and_filtered(kernel):
    def labels(**content):
        return page(kernel, "frame", **content)["index"]

    assert labels(sort={"by": "a"}) == [1, 3, 0, 2]
    assert labels(sort={"by": "a", "descending": True}) == [0, 3, 1, 2]
    assert labels(sort={"by": 1, "descending": True}, page={"limit": 1}) == [2]
    assert labels(filter={"column": "a", "op": ">=", "value": 2}) == [0, 3]
    assert labels(filter={"column": "b", "op": "contains", "value": "x"}) == [0, 3]
    assert labels(filter={"column": "d", "op": ">", "value": "2020-06-01"}, sort={"by": "d"}) == [1, 3]
    assert labels(filter={"column": "a", "op": "is_null"}) == [2]
    both = [{"column": "c", "op": "==", "value": "v"}, {"column": "a", "op": "!=", "value": 1}]
    assert labels(filter=both) == [3]
    assert page(kernel, "series", sort={"by": "a"})["index"] == ["y", "xy", "x", "z"]


def test_other_kinds_in_pages(kernel):
    assert page(kernel, "array", page={"offset": 2})["rows"] == [[8, 9, 10, 11]]
    assert page(kernel, "text", page={"offset": 2998, "limit": 10})["text"] == "bc"
    assert page(kernel, "items")["rows"] == [[1], ["two"], ["[3, {'k': (4, […])}]"]]
    assert page(kernel, "mapping", page={"offset": 1})["rows"] == [[2, None]]
    assert ask(kernel, name="np")["content"]["kind"] == "object"


def test_a_frame_as_arrow(kernel, kernel_python, tmp_path):
    message = ask(kernel, name="frame", format="arrow", sort={"by": "a"}, page={"limit": 2})
    assert message["content"]["page"]["index_columns"] == 1
    (buffer,) = message["buffers"]
    (tmp_path / "page.arrow").write_bytes(buffer)
    code = f"import pyarrow as pa; print(pa.ipc.open_stream({str(tmp_path / 'page.arrow')!r}).read_all().to_pydict())"
    reply, out, _ = kernel.run(code)
    assert reply["status"] == "ok", reply
    assert out.startswith("{'index': [1, 3], 'a': [1.0, 2.0], 'b': ['y', 'xy'], 'd': [Timestamp('2021-01-01")


VALUES = {
    "pd.DataFrame({'a': [1 + 2j]})": {"a": ["(1+2j)"]},
    "pd.DataFrame({'a': pd.arrays.SparseArray([0, 1])})": {"a": [0, 1]},
    "pd.DataFrame({'a\\udcff': ['x\\udcff', None]})": {"a\ufffd": ["x\ufffd", None]},
    "pd.DataFrame({'a': [2**80, 1]})": {"a": ["1208925819614629174706176", "1"]},
}


@pytest.mark.parametrize("code, values", VALUES.items(), ids=VALUES)
def test_values_that_arrow_does_not_have_are_texts(kernel, tmp_path, code, values):
    run(kernel, f"odd = {code}")
    message = ask(kernel, name="odd", format="arrow")
    assert message["content"]["status"] == "ok", message["content"]
    (tmp_path / "page.arrow").write_bytes(message["buffers"][0])
    read = f"import pyarrow as pa; print(ascii(pa.ipc.open_stream({str(tmp_path / 'page.arrow')!r}).read_all().drop(['index']).to_pydict()))"
    assert kernel.run(read)[1] == f"{ascii(values)}\n"


def test_without_pyarrow_arrow_is_refused(kernel_python):
    kernel = RawKernel(kernel_python)
    try:
        run(kernel, "import importlib.util as u, pandas as pd\nfind = u.find_spec")
        run(kernel, "u.find_spec = lambda name, *a: None if name == 'pyarrow' else find(name, *a)\nf = pd.DataFrame({'a': [1]})")
        reply = ask(kernel, name="f", format="arrow")["content"]
        assert (reply["ename"], reply["evalue"]) == ("Unsupported", "format: arrow needs pyarrow, which is not installed here")
    finally:
        kernel.close()


@pytest.mark.parametrize(
    "content, name, text",
    [
        ({"name": "missing"}, "NameError", "there is no variable 'missing'"),
        ({"name": "In"}, "NameError", "there is no variable 'In'"),
        ({"name": 5}, "ValueError", "name: "),
        ({"name": "frame", "page": {"limit": 10_000}}, "ValueError", "page.limit: a number from 1 to 1000"),
        ({"name": "frame", "page": {"offset": -1}}, "ValueError", "page.offset: "),
        ({"name": "frame", "page": [1]}, "ValueError", "page: an object is needed"),
        ({"name": "frame", "format": "xml"}, "ValueError", "format: json or arrow"),
        ({"name": "frame", "sort": {"by": "zz"}}, "ValueError", "there is no column 'zz'"),
        ({"name": "frame", "filter": {"column": "a", "op": "~"}}, "ValueError", "filter: "),
        ({"name": "frame", "filter": {"column": "a", "op": "<", "value": "x"}}, "ValueError", "column 'a' of float64"),
        ({"name": "frame", "filter": {"column": "a", "op": "contains", "value": "x"}}, "ValueError", "column 'a'"),
        ({"name": "items", "sort": {"by": 0}}, "Unsupported", "only a frame or a series"),
        ({"name": "items", "format": "arrow"}, "Unsupported", "only a frame or a series"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(kernel, content, name, text):
    reply = ask(kernel, **content)["content"]
    assert (reply["status"], reply["ename"]) == ("error", name)
    assert text in reply["evalue"]


def test_no_trace_is_left(kernel):
    run(kernel, "'the last value'")
    before = run(kernel, "print(_, sorted(Out), len(In))")["content"]["execution_count"]
    while kernel.iopub.poll(200):
        kernel.receive("iopub")
    rows_of(kernel)
    page(kernel, "frame", sort={"by": "a"})
    msg_id = kernel.execute("(_, max(Out), len(In))")
    seen = []
    while not seen or seen[-1]["content"].get("execution_state") != "idle":
        seen.append(kernel.receive("iopub"))
    assert {message["parent_header"].get("msg_id") for message in seen} == {msg_id}, "the requests showed"
    assert kernel.reply(msg_id)["execution_count"] == before + 1
    (result,) = [m["content"]["data"]["text/plain"] for m in seen if m["msg_type"] == "execute_result"]
    assert result == f"('the last value', {before - 1}, {before + 2})"


def test_while_a_cell_runs_and_changes_everything(kernel):
    code = """
import itertools
print("running", flush=True)
try:
    for n in itertools.count():
        globals()[f"moving{n % 500}"] = {n: n}
        globals().pop(f"moving{(n + 250) % 500}", None)
        frame[f"n{n % 3}"] = n
        if n % 3 == 2: del frame["n0"], frame["n1"], frame["n2"]
        mapping[n % 100] = n; mapping.pop((n + 50) % 100, None)
        time.sleep(0.0002)
except KeyboardInterrupt:
    pass
"""
    msg_id = kernel.execute(code)
    for message in kernel.outputs(msg_id):
        if message["msg_type"] == "stream":
            break
    answers = []
    for _ in range(4):
        assert "frame" in rows_of(kernel)
        for name in ("frame", "mapping"):
            answers.append(ask(kernel, name=name, sort={"by": "a"} if name == "frame" else {})["content"])
    kernel.interrupt()
    assert kernel.reply(msg_id)["status"] == "ok"
    assert {answer["status"] for answer in answers} <= {"ok", "error"}
    assert {answer.get("ename", "Unstable") for answer in answers} == {"Unstable"}
    assert any(answer["status"] == "ok" for answer in answers)
    run(kernel, "frame = frame[['a', 'b', 'd', 'c']]; mapping = {'a': 1, 2: None}; [globals().pop(f'moving{n}', 0) for n in range(500)]")


HOSTILE = """
class Meta(type):
    def __eq__(cls, other): ran.append("meta eq"); return True
    def __hash__(cls): ran.append("meta hash"); return 1
    @property
    def __name__(cls): ran.append("meta name"); return "x"
class Hostile(metaclass=Meta):
    def __getattribute__(self, name): ran.append(name); raise ValueError(name)
    def __repr__(self): ran.append("repr"); raise SystemExit
    def __eq__(self, other): ran.append("eq"); raise ValueError
    def __lt__(self, other): ran.append("lt"); raise ValueError
    __hash__ = object.__hash__
    def __len__(self): ran.append("len"); return 1 << 40
    def __sizeof__(self): ran.append("sizeof"); raise ValueError
class Huge(str):
    def __repr__(self): ran.append("huge"); return "x" * 10**9
class Sleeper(list):
    def __repr__(self): ran.append("sleep"); time.sleep(100)
    def __len__(self): ran.append("len"); time.sleep(100)
ran = []
hostile, huge, sleeper = Hostile(), Huge("abc"), Sleeper([1]); held = {"a": hostile, hostile: 1}
objects = pd.DataFrame({"o": [None, 1, "s"]})
objects.iat[0, 0] = huge; endless = []; endless.append(endless); giant = 10 ** 100_000
ran.clear()
"""


def test_a_hostile_object_costs_one_row(kernel):
    reply = run(kernel, HOSTILE)
    assert reply["content"]["status"] == "ok", reply["content"]
    rows = rows_of(kernel)
    assert rows["hostile"]["preview"] == "<__main__.Hostile>"
    assert (rows["huge"]["type"], rows["huge"]["length"]) == ("Huge", 3)
    assert (rows["sleeper"]["length"], rows["sleeper"]["preview"]) == (1, "<__main__.Sleeper>")
    assert rows["held"]["preview"] == "{'a': <__main__.Hostile>, <__main__.Hostile>: 1}"
    assert rows["endless"]["preview"].startswith("[[[")
    assert rows["giant"]["preview"] == "<int of 332193 bits>"
    assert page(kernel, "objects")["rows"] == [["<__main__.Huge>"], [1], ["s"]]
    assert ask(kernel, name="objects", sort={"by": "o"})["content"]["ename"] == "Unsupported"
    assert page(kernel, "held")["rows"][0] == ["a", "<__main__.Hostile>"]
    assert ask(kernel, name="hostile")["content"]["status"] == "ok"
    assert kernel.run("print(ran)")[1] == "[]\n"
    run(kernel, "del hostile, held, huge, sleeper, endless, giant, objects")


def test_large_variables_are_cut(kernel):
    run(kernel, "wide = pd.DataFrame([['x' * 5000] * 300] * 100); many = {f'm{n}': 0 for n in range(1500)}; globals().update(many)")
    found = page(kernel, "wide", page={"limit": 100})
    assert (len(found["rows"][0]), found["columns_total"], found["cut"]) == (200, 300, True)
    assert 0 < len(found["rows"]) < 100 and len(found["rows"][0][0]) == 1001
    assert len(found["index"]) == len(found["rows"])
    listed = ask(kernel)["content"]
    assert (len(listed["variables"]), listed["truncated"]) == (1000, True) and listed["total"] > 1500
    run(kernel, "[globals().pop(name) for name in many]; del many, wide")


def test_a_request_that_hangs_is_answered_and_others_go_on(kernel_python):
    kernel = RawKernel(kernel_python)
    try:
        code = "import threading\nfrom himalia_kernel import variables as v\nv.TIMEOUT_S = 0.5; look = v.look; gate = threading.Event()\n"
        code += "def stuck(shell, query): gate.wait(); v.look = look; return look(shell, query)\nv.look = stuck"
        assert run(kernel, code)["content"]["status"] == "ok"
        assert ask(kernel)["content"]["ename"] == "Timeout"
        assert ask(kernel)["content"]["ename"] == "Timeout"
        assert run(kernel, "gate.set()")["content"]["status"] == "ok"
        assert eventually(lambda: ask(kernel)["content"]["status"] == "ok", "an answer once the thread is free")
        assert "himalia-variables" not in kernel.run("print(threading.enumerate())")[1]
    finally:
        kernel.close()


def test_a_branch_answers_for_itself(kernel_python):
    with Family(kernel_python) as family:
        run(family.kernel, "x = 1")
        assert rows_of(family.kernel)["x"]["preview"] == "1"
        branch = family.fork()
        run(branch, "x = 2")
        assert rows_of(branch)["x"]["preview"] == "2"
        assert rows_of(family.kernel)["x"]["preview"] == "1"


def test_a_request_has_defaults():
    assert Query.parse({}) == Query(limit=1000), "the list"
    assert Query.parse({"name": "x", "page": {"offset": 3}}).limit == 50
