"""MCP: the tools of /mcp and of `himalia mcp`, with the official client in both eras of the protocol."""

import ast
import base64
import json
import struct
import subprocess
import threading
import time

import anyio
import httpx
import pytest
from agents import DOORS, agent, kinds, run, text, whole
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, Implementation
from waiting import eventually

PLOT = (
    "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\n"
    "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()"
)


@pytest.fixture(scope="module")
def session(shared):
    """A session for the tests that leave it as it is."""
    session = shared.start_session()
    yield session
    shared.delete_session(session)


@pytest.fixture
def asking(shared):
    """A session of one test: a question that stays open would hold back the code of the next one."""
    session = shared.start_session()
    yield session
    shared.delete_session(session)


def rest(gateway, execution):
    """What the native API says of an execution, without what only this request tells."""
    reply = gateway.http.get(f"v1/executions/{execution}")
    assert reply.status_code == 200, reply.text
    shown = reply.json()
    assert shown.pop("provenance")["kernelspec"] == "python3"
    assert isinstance(shown.pop("returned_chars"), int)
    return shown


@pytest.mark.parametrize(("transport", "mode"), DOORS)
def test_an_analysis_in_stages(shared, transport, mode):
    async def analysis():
        async with agent(shared, transport, mode) as client:
            assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
            tools = (await client.list_tools()).tools
            names = {"execute", "files", "get_output", "inspect_variables", "interrupt", "session"}
            assert {tool.name for tool in tools} == names
            name = f"eda-{transport}-{mode}"
            made = await client.call_tool("session", {"op": "create", "name": name})
            assert not made.is_error, text(made)
            again = await client.call_tool("session", {"op": "create", "name": name})
            assert again.is_error and whole(again)["code"] == "conflict"
            listed = await client.call_tool("session", {"op": "list"})
            assert name in [one["name"] for one in whole(listed)["sessions"]]

            load = "import pandas as pd\ndf = pd.DataFrame({'a': range(5)})\nprint('loaded')\ndf.shape"
            loaded = await client.call_tool("execute", {"session": name, "code": load})
            assert not loaded.is_error and "loaded\n(5, 1)\n" in text(loaded)
            wrong = await client.call_tool("execute", {"session": name, "code": "x = 1\ndf['b'].sum()"})
            assert wrong.is_error and "[failing line 2: df['b'].sum()]" in text(wrong)
            assert whole(wrong)["error"]["frame"] == {"line": 2, "source": "df['b'].sum()"}
            right = await client.call_tool("execute", {"session": name, "code": "int(df['a'].sum()) + x"})
            assert "11\n" in text(right) and whole(right)["status"] == "ok"
            for result in (loaded, wrong, right):
                same = rest(shared, whole(result)["id"])
                assert whole(result) == same
                read = await client.call_tool("get_output", {"execution_id": same["id"]})
                assert (whole(read), read.is_error) == (same, result.is_error)
            variables = await client.call_tool("inspect_variables", {"session": name})
            assert any(line.startswith("df: DataFrame [5,1]") for line in text(variables).splitlines()), text(variables)
            wanted = {"session": name, "name": "df", "filter": [{"column": "a", "op": ">", "value": 2}]}
            rows = whole(await client.call_tool("inspect_variables", wanted))["page"]
            assert (rows["matched"], rows["rows"]) == (2, [[3], [4]])
            unknown = await client.call_tool("inspect_variables", {"session": name, "name": "nothing"})
            assert unknown.is_error and whole(unknown)["code"] == "variable_not_found"
            ran = await client.call_tool("session", {"op": "list", "session": name})
            assert len(whole(ran)["executions"]) == 3

            closed = await client.call_tool("session", {"op": "close", "session": name})
            assert not closed.is_error
            gone = await client.call_tool("execute", {"session": name, "code": "1"})
            assert gone.is_error and whole(gone)["code"] == "session_not_found"
            assert whole(gone)["retryable"] is False

    run(analysis)


def test_what_cannot_be_is_named(shared, session):
    async def mistakes():
        async with agent(shared) as client:
            for tool, arguments, wanted in [
                ("execute", {"session": session}, "code"),
                ("execute", {"session": session, "code": "1", "cod": "2"}, "cod"),
                ("execute", {"session": session, "code": "1", "wait_s": 601}, "wait_s"),
                ("execute", {"session": session, "code": "1", "image_bytes": 1 << 30}, "image_bytes"),
                ("execute", {"session": session, "code": "1", "text_chars": 1 << 30}, "text_chars"),
                ("get_output", {"execution_id": "exe_none_1"}, "exe_none_1"),
                ("interrupt", {}, "session or execution_id"),
                ("session", {"op": "close"}, "session"),
                ("session", {"op": "create", "count": 2}, "count"),
                ("execute", {"session": session, "code": "1", "language": "ruby"}, '"ruby"'),
                ("files", {"op": "read", "session": session}, "path"),
                ("files", {"op": "read", "session": session, "path": "x", "text": "y"}, "text"),
                ("files", {"op": "read", "session": session, "path": "x", "limit": 1 << 30}, "limit"),
                ("files", {"op": "write", "session": session, "path": "x"}, "text"),
                ("files", {"op": "read", "session": session, "path": "no-such"}, "no-such"),
                ("files", {"op": "read", "session": session, "path": "../x"}, ".."),
            ]:
                result = await client.call_tool(tool, arguments)
                assert result.is_error and wanted in text(result), (tool, arguments, text(result))
                codes = ("bad_request", "execution_not_found", "language_not_supported", "file_not_found", "bad_path")
                assert whole(result)["code"] in codes, whole(result)
            elsewhere = await client.call_tool(
                "execute", {"session": session, "code": "1", "expect_incarnation": 7}
            )
            assert whole(elsewhere)["code"] == "kernel_restarted"
            assert whole(elsewhere)["incarnation"] == 1

    run(mistakes)


def test_an_additional_kernel_and_what_holds_for_one_execution(shared, session):
    async def kernels():
        async with agent(shared) as client:
            scoped = {"session": session, "code": "import os; (os.environ['A'], os.getcwd())", "env": {"A": "b"}, "cwd": "/"}
            ran = await client.call_tool("execute", {**scoped, "metadata": {"ticket": 7}})
            assert "('b', '/')" in text(ran) and whole(ran)["metadata"] == {"ticket": 7}
            again = await client.call_tool("execute", {"session": session, "code": "x = 1; 'A' in os.environ"})
            assert "False" in text(again)
            made = await client.call_tool("session", {"op": "add_kernel", "session": session})
            kernel = whole(made)["kernel"]
            there = {"session": session, "kernel": kernel}
            assert "NameError" in text(await client.call_tool("execute", {**there, "code": "x"}))
            await client.call_tool("execute", {**there, "code": "y = 2"})
            def names(listed):
                return {one["name"] for one in whole(listed)["variables"]}

            assert names(await client.call_tool("inspect_variables", there)) == {"y"}
            assert names(await client.call_tool("inspect_variables", {"session": session})) == {"os", "x"}
            assert "y = 2" in text(await client.call_tool("session", {"op": "list", **there}))
            closed = await client.call_tool("session", {"op": "close", **there})
            assert whole(closed) == {"closed": kernel}
            gone = await client.call_tool("execute", {**there, "code": "1"})
            assert gone.is_error and whole(gone)["code"] == "kernel_not_found", whole(gone)
            assert not (await client.call_tool("execute", {"session": session, "code": "x"})).is_error

    run(kernels)


def test_a_shell_script(shared, session):
    async def scripts():
        async with agent(shared) as client:
            script = {"session": session, "code": "echo out; echo err >&2; exit 3", "language": "bash"}
            failed = await client.call_tool("execute", script)
            assert failed.is_error and "out\nerr\nBashError: exit code 3\n" in text(failed), text(failed)
            assert whole(failed) == rest(shared, whole(failed)["id"])
            assert (whole(failed)["language"], whole(failed)["exit_code"]) == ("bash", 3)
            right = await client.call_tool("execute", {**script, "code": "cat"})
            assert not right.is_error and whole(right)["exit_code"] == 0

    run(scripts)


@pytest.mark.parametrize(("transport", "mode"), DOORS)
def test_files_are_listed_read_written_and_removed(shared, transport, mode, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    made = shared.http.post("v1/sessions", json={"template": "python3", "cwd": str(work)})
    session = made.json()["id"]

    async def files():
        async with agent(shared, transport, mode) as client:

            async def call(op, **more):
                return await client.call_tool("files", {"op": op, "session": session, **more})

            story = "".join(f"línea {n}\n" for n in range(2000))
            wrote = await call("write", path="deep/er/año 1.txt", text=story)
            size = len(story.encode())
            assert whole(wrote) == {"path": "deep/er/año 1.txt", "bytes": size, "created": True}
            assert (work / "deep/er/año 1.txt").read_text() == story
            again = await call("write", path="note", text="short")
            assert whole(again)["created"] and text(await call("read", path="note")) == "short"
            assert not whole(await call("write", path="note", text=""))["created"]
            empty = await call("read", path="note")
            assert whole(empty)["text"] == "" and kinds(empty) == ["text"]

            # Page by page, whatever the pages cut.
            read, cursor, limit = "", 0, 997
            while cursor is not None:
                page = await call("read", path="deep/er/año 1.txt", cursor=cursor, limit=limit)
                assert not page.is_error and kinds(page) == ["text", "resource_link"]
                found = whole(page)
                assert found["offset"] == cursor and found["bytes_total"] == size
                assert len(found["text"].encode()) <= 997
                read, cursor = read + found["text"], found["next"]
            assert read == story
            past = await call("read", path="note", cursor=5)
            assert past.is_error and whole(past)["code"] == "range_not_satisfiable"

            (work / "plot.png").write_bytes(b"\x89PNG" + bytes(100))
            binary = await call("read", path="plot.png")
            assert kinds(binary) == ["text", "resource_link"] and whole(binary)["binary"]
            link = binary.content[1]
            assert link.size == 104 and str(link.uri) in text(binary)
            opened = await client.read_resource(str(link.uri))
            assert base64.b64decode(opened.contents[0].blob) == b"\x89PNG" + bytes(100)
            content = b"\0\xff" * 700
            wrote = await call("write", path="b.bin", text=base64.b64encode(content).decode(), encoding="base64")
            assert whole(wrote)["bytes"] == 1400 and (work / "b.bin").read_bytes() == content
            part = whole(await call("read", path="b.bin", encoding="base64", cursor=100, limit=1000))
            assert base64.b64decode(part["base64"]) == content[100:1100] and part["next"] == 1100
            end = whole(await call("read", path="b.bin", encoding="base64", cursor="1100"))
            assert base64.b64decode(end["base64"]) == content[1100:] and end["next"] is None
            wrong = await call("write", path="b.bin", text="?", encoding="base64")
            assert wrong.is_error and "text" in text(wrong) and (work / "b.bin").read_bytes() == content
            seen, cursor = [], None
            while cursor is not None or not seen:
                more = {} if cursor is None else {"cursor": cursor}
                page = whole(await call("list", recursive=True, limit=2, **more))
                seen += [entry["path"] for entry in page["entries"]]
                cursor = page["next"]
            listed = whole(await call("list", recursive=True))
            assert seen == [entry["path"] for entry in listed["entries"]]
            assert not (await call("delete", path="b.bin")).is_error

            long = await call("read", path="deep/er/año 1.txt")
            assert len(whole(long)["text"].encode()) <= 8192 and "continue at cursor" in text(long)
            opened = await client.read_resource(str(long.content[1].uri))
            assert opened.contents[0].text == story
            with pytest.raises(MCPError):
                await client.read_resource(str(link.uri).replace("plot", "no-such"))
            (work / "large").write_bytes(bytes((8 << 20) + 1))
            large = (await call("read", path="large")).content[1]
            with pytest.raises(MCPError, match="GET /v1/sessions/"):
                await client.read_resource(str(large.uri))

            top = whole(await call("list"))
            assert [(e["path"], e["kind"]) for e in top["entries"]] == [
                ("deep", "directory"), ("large", "file"), ("note", "file"), ("plot.png", "file")
            ]  # fmt: skip
            deep = await call("list", path="deep", recursive=True)
            assert f"deep/er/año 1.txt {size}" in text(deep) and "deep/er/\n" in text(deep)
            few = await call("list", limit=1)
            assert whole(few)["truncated"] and "continue at cursor" in text(few)
            full = await call("delete", path="deep")
            assert full.is_error and whole(full)["code"] == "directory_not_empty"
            assert whole(await call("delete", path="deep", recursive=True))["removed"] == 3
            assert sorted(path.name for path in work.iterdir()) == ["large", "note", "plot.png"]
            outside = await call("write", path="../x", text="y")
            assert outside.is_error and whole(outside)["code"] == "bad_path"
            assert not (tmp_path / "x").exists()

    try:
        run(files)
    finally:
        shared.http.delete(f"v1/sessions/{session}")


FRAME = "import pandas as pd\npd.DataFrame({'a': [1, 2]})"


@pytest.mark.parametrize(("transport", "mode"), DOORS)
def test_text_and_images_are_there_once_and_structured_content_is_on_request(shared, session, transport, mode):
    """Hosts show models structured content in place of text and images, or in addition to them."""

    async def results():
        async with agent(shared, transport, mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools["execute"].output_schema is None
            for code in (FRAME, PLOT, "1 / 0"):
                result = await client.call_tool("execute", {"session": session, "code": code})
                again = await client.call_tool("get_output", {"execution_id": whole(result)["id"]})
                part = await client.call_tool("get_output", {"execution_id": whole(result)["id"], "cursor": 0})
                assert [one.structured_content for one in (result, again, part)] == [None] * 3
                assert whole(result)["status"] in text(result) and "usage" in whole(result)
            for tool, arguments in [
                ("session", {"op": "list"}),
                ("files", {"op": "list", "session": session}),
                ("inspect_variables", {"session": session}),
                ("execute", {"session": session, "code": 1}),
            ]:
                result = await client.call_tool(tool, arguments)
                assert result.structured_content is None and whole(result) and text(result), result
            asked = await client.call_tool("execute", {"session": session, "code": FRAME, "structured": True})
            short, native = asked.structured_content, whole(asked)
            assert text(asked).startswith("   a\n0  1\n1  2\n") and short["id"] == native["id"]
            assert all(short["usage"].values()) and len(short["usage"]) < len(native["usage"])
            assert set(native["outputs"][0]) >= {"data", "table"} and "text/html" in native["outputs"][0]["data"]
            assert short["outputs"] == [{"output_type": "execute_result", "data": {"text/plain": "   a\n0  1\n1  2"}}]
            page = await client.call_tool("get_output", {"execution_id": native["id"], "limit": 9, "structured": True})
            assert page.structured_content["bytes_total"] == 0

    run(results)


def shown(result):
    """Characters that a host gives to a model, without the picture."""
    return sum(len(block.text) for block in result.content if block.type == "text") + len(str(result.structured_content or ""))


def test_a_model_reads_little(shared, session):
    async def sizes():
        async with agent(shared) as client:
            listed = (await client.list_tools()).tools
            own = [tool for tool in listed if tool.name not in ("skill", "workflow")]
            size = len(json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in own], separators=(",", ":")))
            assert size <= 5000, size
            plot = await client.call_tool("execute", {"session": session, "code": PLOT})
            assert kinds(plot) == ["text", "image"] and shown(plot) <= 1500, text(plot)

    run(sizes)


SHOWN = {
    "from IPython.display import Markdown, display\ndisplay(Markdown('# Result\\n\\n- one'))": "# Result\n\n- one",
    "from IPython.display import HTML\nHTML('<p>so <b>bold</b></p><table><tr><td>1</td><td>2</td></tr></table>')": "so bold\n1 | 2\n",
    "import pandas as pd\npd.DataFrame({'a': [1]}).style": "   a\n0  1",
    (
        "from IPython.display import publish_display_data\npublish_display_data({'application/vnd.plotly.v1+json': "
        "{'data': [{'type': 'bar', 'name': 'north', 'y': [1, 2, 3]}], 'layout': {'title': {'text': 'Sales'}}}})"
    ): "[plotly figure 'Sales', bar 'north' (3 points)]",
}


def test_displays_without_a_text_have_one_for_the_model(shared, session):
    async def shown():
        async with agent(shared) as client:
            for code, wanted in SHOWN.items():
                result = await client.call_tool("execute", {"session": session, "code": code})
                assert wanted in text(result) and "object" not in text(result), text(result)
                assert kinds(result) == ["text"], result.content

    run(shown)


def test_an_image_with_too_many_pixels_is_shown_smaller(shared, session):
    async def images():
        async with agent(shared) as client:
            wide = "import matplotlib.pyplot as plt\nplt.figure(figsize=(110, 4)); plt.plot([1, 2])\nplt.savefig('wide.png'); plt.show()"
            result = await client.call_tool("execute", {"session": session, "code": PLOT + "\n" + wide})
            assert kinds(result) == ["text", "image", "image"], text(result)
            [output] = [one for one in whole(result)["outputs"] if "preview" in one]
            assert output["data"]["image/png"]["width"] > 8000 and output["preview"]["width"] == 2000
            assert struct.unpack(">II", base64.b64decode(result.content[2].data)[16:24])[0] == 2000
            assert "shown as image/png 2000x" in text(result) and "the whole: himalia://artifacts/" in text(result)
            assert "[files written: wide.png]" in text(result)
            # One that the kernel could not scale is a link.
            data = base64.b64encode(struct.pack(">8sI4sII", b"\x89PNG\r\n\x1a\n", 13, b"IHDR", 3000, 9)).decode()
            raw = f"from IPython.display import publish_display_data\npublish_display_data({{'image/png': {data!r}}})"
            linked = await client.call_tool("execute", {"session": session, "code": raw})
            assert kinds(linked) == ["text", "resource_link"]
            assert "image/png 3000x9" in text(linked) and "more than 2000 pixels on a side" in text(linked)
            # A file that is an image is one, within the same bounds.
            small = "plt.figure(); plt.plot([1, 2]); plt.savefig('small.png'); plt.close()"
            saved = await client.call_tool("execute", {"session": session, "code": small})
            assert "[files written: small.png]" in text(saved)
            read = await client.call_tool("files", {"op": "read", "session": session, "path": "small.png"})
            assert kinds(read) == ["text", "image"] and read.structured_content is None, read
            assert text(read).startswith("[image small.png: image/png ") and whole(read)["kind"] == "image/png"
            large = await client.call_tool("files", {"op": "read", "session": session, "path": "wide.png"})
            assert kinds(large) == ["text", "resource_link"]

    run(images)


def test_names_as_models_choose_them_and_the_way_to_a_session(shared):
    async def named():
        async with agent(shared) as client:
            missing = await client.call_tool("execute", {"session": "titanic_eda", "code": "1"})
            assert missing.is_error and 'session(op="create"' in text(missing), text(missing)
            made = await client.call_tool("session", {"op": "create", "name": "titanic_eda"})
            assert not made.is_error, text(made)
            wrong = await client.call_tool("execute", {"session": "titanic_eda", "code": "1", "timeout_s": "5"})
            assert wrong.is_error and text(wrong).startswith("timeout_s: "), text(wrong)
            await client.call_tool("session", {"op": "close", "session": "titanic_eda"})

    run(named)


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_an_image_within_the_budget_and_beyond_it(shared, session, transport):
    async def images():
        async with agent(shared, transport) as client:
            seen = await client.call_tool("execute", {"session": session, "code": PLOT})
            assert kinds(seen) == ["text", "image"] and seen.content[1].mime_type == "image/png"
            png = base64.b64decode(seen.content[1].data)
            assert png.startswith(b"\x89PNG") and "[image 1: image/png " in text(seen)
            assert "iVBOR" not in json.dumps(whole(seen))
            small = await client.call_tool("execute", {"session": session, "code": PLOT, "image_bytes": len(png) - 1})
            assert kinds(small) == ["text", "resource_link"]
            link = small.content[1]
            assert (link.mime_type, link.size) == ("image/png", len(png)) and str(link.uri) in text(small)
            read = await client.read_resource(str(link.uri))
            assert base64.b64decode(read.contents[0].blob) == png
            later = {"execution_id": whole(small)["id"], "image_bytes": len(png)}
            assert kinds(await client.call_tool("get_output", later)) == ["text", "image"]

    run(images)


@pytest.mark.parametrize(("transport", "mode"), DOORS)
def test_progress_is_told_while_it_runs(shared, session, transport, mode):
    told = []

    async def watch(progress, _total, message):
        told.append((progress, message))

    async def running():
        async with agent(shared, transport, mode) as client:
            code = "import time\nfor n in range(5):\n    print('step', n, flush=True)\n    time.sleep(0.7)"
            arguments = {"session": session, "code": code}
            result = await client.call_tool("execute", arguments, progress_callback=watch)
            assert whole(result)["status"] == "ok"

    run(running)
    assert 2 <= len(told) <= 4, "one a second at most"
    assert all(message.startswith("step ") for _, message in told)
    assert [at for at, _ in told] == sorted({at for at, _ in told})


def test_code_that_ignores_interrupts_is_not_waited_for(shared):
    session = shared.start_session()

    async def stubborn():
        async with agent(shared) as client:
            code = "import time\nfor _ in range(300):\n  try: time.sleep(1)\n  except BaseException: pass"
            began = time.monotonic()
            ran = await client.call_tool("execute", {"session": session, "code": code, "timeout_s": 1})
            result = whole(ran)
            # The wait of a call that names none is 50 s.
            assert time.monotonic() - began < 40
            assert result["status"] == "running" and result["stuck"]["execution"] == result["id"]
            assert "[hint: The code ignores interrupts" in text(ran), text(ran)
            behind = await client.call_tool("execute", {"session": session, "code": "1", "timeout_s": 1})
            assert whole(behind)["status"] == "queued" and result["id"] in text(behind), text(behind)

    run(stubborn)
    shared.delete_session(session)


def test_work_in_the_background_is_read_and_interrupted(shared, session):
    async def background():
        async with agent(shared) as client:
            code = "import time\nprint('begun', flush=True)\nkept = 42\nwhile True: time.sleep(0.05)"
            begun = await client.call_tool("execute", {"session": session, "code": code, "background": True})
            execution = whole(begun)["id"]
            assert whole(begun)["status"] in ("queued", "running") and execution in text(begun)
            eventually(lambda: rest(shared, execution)["text"] == "begun\n", "it prints", 60)
            page = await client.call_tool("get_output", {"execution_id": execution, "cursor": 2, "limit": 2})
            assert whole(page) == {
                "text": "gu", "offset": 2, "next": 4, "bytes_total": 6, "complete": False
            }  # fmt: skip
            waited = await client.call_tool("get_output", {"execution_id": execution, "wait_s": 0.2})
            assert whole(waited)["status"] == "running" and not waited.is_error
            stopped = await client.call_tool("interrupt", {"execution_id": execution})
            assert whole(stopped) == {"stopping": True}
            ended = await client.call_tool("get_output", {"execution_id": execution, "wait_s": 60})
            assert whole(ended)["status"] == "interrupted" and ended.is_error
            over = await client.call_tool("interrupt", {"execution_id": execution})
            assert whole(over) == {"stopping": False}
            kept = await client.call_tool("execute", {"session": session, "code": "kept"})
            assert "42" in text(kept)

            late = {"session": session, "code": "import time\nwhile True: time.sleep(0.05)", "timeout_s": 0.5}
            timeout = await client.call_tool("execute", late)
            assert timeout.is_error and whole(timeout)["status"] == "timeout"

    run(background)


def test_two_agents_on_one_session_are_served_in_order(shared, session):
    rounds = 12

    async def work():
        async with agent(shared) as one, agent(shared, "stdio", "legacy") as two:
            await one.call_tool("execute", {"session": session, "code": "turns = []"})

            async def turns(client, name, taken):
                for n in range(rounds):
                    code = f"turns.append(('{name}', {n})); len(turns)"
                    result = whole(await client.call_tool("execute", {"session": session, "code": code}))
                    assert result["status"] == "ok", result
                    place = int(result["outputs"][0]["data"]["text/plain"])
                    taken.append((result["created"], result["execution_count"], place, name, n))

            taken = []
            async with anyio.create_task_group() as both:
                both.start_soon(turns, one, "one", taken)
                both.start_soon(turns, two, "two", taken)
            ran = await one.call_tool("execute", {"session": session, "code": "turns"})
            return sorted(taken), json.loads(whole(ran)["outputs"][0]["data"]["text/plain"].translate(str.maketrans("()'", '[]"')))

    taken, ran = run(work)
    # In the order in which they were taken they ran, each once, none lost.
    assert [place for _, _, place, _, _ in taken] == list(range(1, 2 * rounds + 1))
    counts = [count for _, count, _, _, _ in taken]
    assert counts == list(range(counts[0], counts[0] + 2 * rounds))
    assert [[name, n] for _, _, _, name, n in taken] == ran
    assert {name for name, _ in map(tuple, ran[: rounds + 4])} == {"one", "two"}, "neither waits for the other to be done"


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_busy_agent_does_not_delay_anothers_first_code(shared, session, transport, tmp_path):
    """Both have one token, and differ in the names that they give themselves."""
    gate = tmp_path / "gate"
    hold = f"import os, time\nran = []\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"

    async def work():
        names = [Implementation(name=name, version="1") for name in ("busy", "other")]
        async with agent(shared, client_info=names[0]) as busy, agent(shared, transport, client_info=names[1]) as other:

            async def queue(client, code):
                call = {"session": session, "code": code, "background": True}
                return whole(await client.call_tool("execute", call))

            await queue(busy, hold)
            queued = [await queue(busy, f"ran.append('busy {number}')") for number in range(20)]
            first = await queue(other, "ran.append('other')")
            assert (queued[-1]["position"], first["position"]) == (20, 2), first
            gate.touch()
            await busy.call_tool("get_output", {"execution_id": queued[-1]["id"], "wait_s": 60})
            ran = await busy.call_tool("execute", {"session": session, "code": "ran"})
            return whole(ran)["outputs"][0]["data"]["text/plain"]

    wanted = [f"busy {number}" for number in range(20)]
    assert ast.literal_eval(run(work)) == [wanted[0], "other", *wanted[1:]]


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_client_that_leaves_stops_nothing(shared, session, transport, tmp_path):
    gate = tmp_path / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n'done'"

    async def leave():
        async with agent(shared, transport) as client:
            with anyio.move_on_after(1):
                await client.call_tool("execute", {"session": session, "code": code})
            ran = await client.call_tool("session", {"op": "list", "session": session})
            return whole(ran)["executions"][-1]["id"]

    execution = run(leave)
    assert rest(shared, execution)["status"] == "running"
    gate.touch()
    eventually(lambda: rest(shared, execution)["status"] == "ok", "it ends", 60)


def test_long_output_is_cut_and_can_be_read(shared, session):
    async def long():
        async with agent(shared) as client:
            arguments = {"session": session, "code": "print('x' * 9999)", "text_chars": 100}
            result = await client.call_tool("execute", arguments)
            execution = whole(result)["id"]
            assert len(text(result)) < 400 and f"get_output {execution} cursor=50" in text(result)
            page = await client.call_tool("get_output", {"execution_id": execution, "cursor": 50})
            assert whole(page)["next"] == 50 + 8192 and "continue at cursor 8242" in text(page)

    run(long)


@pytest.mark.parametrize(("transport", "mode"), DOORS)
def test_input_is_asked_of_the_clients_user(shared, asking, transport, mode):
    asked = []

    async def user(_context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"value": f"answer {len(asked)}"})

    async def ask():
        async with agent(shared, transport, mode, elicitation_callback=user) as client:
            code = "one = input('First? ')\ntwo = input('Second? ')\n(one, two)"
            result = await client.call_tool("execute", {"session": asking, "code": code, "allow_stdin": True})
            assert "('answer 1', 'answer 2')" in text(result), text(result)

    run(ask)
    says = f"The code in session {asking} asks: "
    assert asked == [f"{says}First?", f"{says}Second?"]


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def message(gateway, method, token=None, **params):
    """The answer to one message of revision 2026-07-28."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token or gateway.token}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if name := params.get("name") or params.get("uri"):
        headers["Mcp-Name"] = name
    reply = httpx.post(f"{gateway.url}mcp", json=body, headers=headers, timeout=60, trust_env=False)
    data = [line[5:] for line in reply.text.splitlines() if line.startswith("data:") and line[5:].strip()]
    return json.loads(data[-1] if data else reply.text)


def test_a_state_is_good_for_its_own_question_and_a_missing_answer_is_asked_for_again(shared, asking):
    other = shared.start_session()
    token = shared.http.post("v1/tokens", json={"caller": "other", "scope": "execute"}).json()["token"]
    arguments = {"session": asking, "code": "input('Name? ')", "allow_stdin": True}

    def call(arguments=arguments, token=None, **more):
        return message(shared, "tools/call", token, name="execute", arguments=arguments, **more)

    try:
        first = call()["result"]
        assert first["resultType"] == "input_required", first
        state = first["requestState"]
        given = {"input": {"action": "accept", "content": {"value": "Ada"}}}
        for wrong in (
            {"requestState": f"{state}-TAMPERED"},
            {"requestState": "exe_1"},
            {"requestState": state, "token": token},
            {"requestState": state, "arguments": {**arguments, "session": other}},
        ):
            refused = call(inputResponses=given, **wrong)
            assert refused["error"]["code"] == -32602 and "requestState" in refused["error"]["message"], refused
        for missing in ({}, {"inputResponses": {}}, {"inputResponses": {"x": given["input"]}}, {"inputResponses": {"input": {"action": "accept"}}}):
            again = call(requestState=state, **missing)["result"]
            assert again["resultType"] == "input_required" and again["inputRequests"] == first["inputRequests"], again
            state = again["requestState"]
        done = call(requestState=state, inputResponses=given)["result"]
        assert "'Ada'" in done["content"][0]["text"], done
    finally:
        shared.delete_session(other)


def test_lists_say_how_long_they_are_good_and_sessions_are_resources(shared, session):
    for method, least in [("server/discover", 3_600_000), ("tools/list", 60_000), ("resources/templates/list", 3_600_000)]:
        found = message(shared, method)["result"]
        assert (found["ttlMs"], found["cacheScope"]) == (least, "private"), found
    listed = message(shared, "resources/list")["result"]
    uri = f"himalia://sessions/{session}"
    assert uri in [one["uri"] for one in listed["resources"]] and listed["ttlMs"] == 5000
    read = message(shared, "resources/read", uri=uri)["result"]["contents"][0]
    assert json.loads(read["text"])["id"] == session and read["uri"] == uri
    for unknown in ("himalia://sessions/x", f"{uri}/files/no-such", "himalia://artifacts/ab", "test://x"):
        error = message(shared, "resources/read", uri=unknown)["error"]
        assert (error["code"], error["data"]) == (-32602, {"uri": unknown}), error


def test_a_client_that_listens_hears_that_its_tools_are_others(gateway):
    skill = {"name": "heard", "version": "1.0.0", "description": "To be heard.", "kind": "instructions"}
    body = {"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen"}
    body["params"] = {"_meta": META, "notifications": {"toolsListChanged": True, "promptsListChanged": True}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen", "Accept": "application/json, text/event-stream"}
    with gateway.http.stream("POST", "mcp", json=body, headers=headers, timeout=60) as reply:
        assert reply.status_code == 200
        told = (json.loads(line[5:]) for line in reply.iter_lines() if line.startswith("data:") and line[5:].strip())
        first = next(told)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True}, first
        files = {"SKILL.md": {"text": "---\nname: heard\ndescription: To be heard.\n---\nHear."}}
        made = gateway.http.post("v1/skills", json={"manifest": skill, "files": files})
        assert made.status_code == 201, made.text
        second = next(told)
        assert second["method"] == "notifications/tools/list_changed"
        assert second["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "s", second


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_input_is_answered_by_a_later_call(shared, asking, mode):
    async def ask():
        async with agent(shared, mode=mode) as client:
            plain = await client.call_tool("execute", {"session": asking, "code": "input('Name? ')"})
            assert plain.is_error and "StdinNotImplementedError" in text(plain)
            code = "name = input('Name? ')\nword = __import__('getpass').getpass('Word? ')\n(name, word)"
            waits = await client.call_tool("execute", {"session": asking, "code": code, "allow_stdin": True})
            execution = whole(waits)["id"]
            asked = whole(waits)["input"]
            assert (asked["prompt"], asked["password"]) == ("Name? ", False)
            assert asked["id"] in text(waits) and not waits.is_error
            # The question that is there already ends this wait at once.
            read = await client.call_tool("get_output", {"execution_id": execution, "wait_s": 60})
            assert whole(read)["input"]["prompt"] == "Name? "
            answer = {"session": asking, "code": "Ada", "input_for": execution}
            waits = await client.call_tool("execute", answer)
            assert whole(waits)["input"]["password"] is True
            # The prompt of the first question has ended: its answer is not that of the second one.
            late = await client.call_tool("execute", {**answer, "input_for": asked["id"]})
            assert late.is_error and whole(late)["code"] == "conflict"
            done = await client.call_tool("execute", {**answer, "code": "s3cret"})
            assert "('Ada', 's3cret')" in text(done)
            late = await client.call_tool("execute", answer)
            assert late.is_error and whole(late)["code"] == "conflict"

    run(ask)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_user_who_would_not_answer_leaves_it_waiting(shared, asking, mode):
    async def user(_context, _params):
        return ElicitResult(action="decline")

    async def ask():
        async with agent(shared, mode=mode, elicitation_callback=user) as client:
            arguments = {"session": asking, "code": "input('Sure? ')", "allow_stdin": True}
            waits = await client.call_tool("execute", arguments)
            assert whole(waits)["input"]["prompt"] == "Sure? "
            execution = whole(waits)["id"]
            await client.call_tool("interrupt", {"session": asking})
            eventually(lambda: rest(shared, execution)["status"] != "running", "it is interrupted", 60)
            ended = await client.call_tool("get_output", {"execution_id": execution, "wait_s": 60})
            assert ended.is_error and whole(ended)["error"]["name"] == "KeyboardInterrupt"

    run(ask)


def test_the_answer_of_another_client_is_refused(shared):
    answer = {"jsonrpc": "2.0", "id": "ask_00@eda", "result": {"action": "accept", "content": {"value": "x"}}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    assert shared.http.post("mcp", json=answer, headers=headers).status_code == 400


def test_a_skill_of_instructions_is_a_prompt_and_sessions_complete(shared, session):
    skill = {"name": "clean-data", "version": "1.0.0", "description": "How to clean data.", "kind": "instructions"}
    files = {"SKILL.md": {"text": "---\nname: clean-data\ndescription: How to clean data.\n---\nDrop empty rows."}}
    assert shared.http.post("v1/skills", json={"manifest": skill, "files": files}).status_code == 201

    async def read():
        async with agent(shared) as client:
            (prompt,) = [one for one in (await client.list_prompts()).prompts if one.name == "clean-data"]
            assert prompt.description == "How to clean data." and not prompt.arguments
            (got,) = (await client.get_prompt("clean-data")).messages
            assert got.role == "user" and "Drop empty rows." in got.content.text
            with pytest.raises(MCPError):
                await client.get_prompt("unknown")

    try:
        run(read)
        ref = {"type": "ref/resource", "uri": "himalia://sessions/{session}"}
        for part in ("session", "other"):
            found = message(shared, "completion/complete", ref=ref, argument={"name": part, "value": session[:8]})
            assert found["result"]["completion"]["values"] == ([session] if part == "session" else []), found
    finally:
        assert shared.http.delete("v1/skills/clean-data").status_code == 204


SOUND = "from IPython.display import Audio\nAudio([0.0, 0.5] * 400, rate=8000)"


def test_a_sound_is_a_link_and_content_on_request(shared, session):
    async def hear():
        async with agent(shared) as client:
            linked = await client.call_tool("execute", {"session": session, "code": SOUND})
            assert kinds(linked) == ["text", "resource_link"] and linked.content[1].mime_type == "audio/wav"
            (content,) = (await client.read_resource(str(linked.content[1].uri))).contents
            assert base64.b64decode(content.blob)[:4] == b"RIFF"
            asked = await client.call_tool("get_output", {"execution_id": whole(linked)["id"], "audio_bytes": 100000})
            assert kinds(asked) == ["text", "audio"] and asked.content[1].data == content.blob
            assert "[audio 1: audio/wav, " in text(asked)

    run(hear)


def test_only_the_token_opens_and_no_foreign_page_may_call(shared):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=shared.url, headers=headers, trust_env=False, timeout=60) as http:
        for credential in ({}, {"Authorization": "Bearer wrong"}):
            refused = http.post("mcp", json=message, headers=credential)
            assert refused.status_code == 401 and "tools" not in refused.text
        own = {"Authorization": f"Bearer {shared.token}"}
        foreign = http.post("mcp", json=message, headers={**own, "Origin": "https://evil.example"})
        assert foreign.status_code == 403 and "tools" not in foreign.text
        assert http.post("mcp", json=message, headers={**own, "Origin": shared.url.rstrip("/")}).status_code == 200
        # A name that was made to mean this machine: the page and the host agree, and neither is the gateway's.
        rebound = {**own, "Origin": "http://evil.example:80", "Host": "evil.example:80"}
        refused = http.post("mcp", json=message, headers=rebound)
        assert refused.status_code == 403 and "tools" not in refused.text
        assert http.get("mcp", headers=own).status_code == 405

    async def stranger():
        async with Client(streamable_http_client(f"{shared.url}mcp"), mode="legacy"):
            pass

    # The SDK wraps its error in groups of tasks.
    with pytest.raises(BaseException) as failure:  # noqa: PT011
        run(stranger)
    error = failure.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError), error


def test_stdio_says_what_is_wrong(shared, tmp_path):
    def spoken(*options, lines):
        command = [shared.command()[0], "mcp", *options]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    ask = '{"jsonrpc": "2.0", "id": "a", "method": "tools/list"}\n'
    wrong = tmp_path / "wrong-token"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    _, (refused,) = spoken("--url", shared.url, "--token-file", str(wrong), lines=ask)
    assert refused["id"] == "a" and "401" in refused["error"]["message"]
    right = ("--url", shared.url, "--token-file", str(shared.token_file))
    _, answers = spoken(*right, lines="no json\n\n[1]\n" + ask)
    assert [one.get("error", {}).get("code") for one in answers[:2]] == [-32600, -32600]
    assert len(answers[2]["result"]["tools"]) == 6
    done, answers = spoken("--data-dir", str(tmp_path / "none"), lines=ask)
    assert done.returncode == 1 and not answers and "--url" in done.stderr


@pytest.mark.parametrize(("transport", "mode"), DOORS)
def test_a_gateway_that_is_restarted_is_used_on(gateway, transport, mode):
    async def through():
        async with agent(gateway, transport, mode) as client:
            await client.call_tool("session", {"op": "create", "name": "s"})
            await client.call_tool("execute", {"session": "s", "code": "kept = 42"})
            await anyio.to_thread.run_sync(gateway.kill)
            starting = threading.Thread(target=gateway.start)
            if transport == "http":
                await anyio.to_thread.run_sync(gateway.start)
            else:
                # `himalia mcp` waits for it.
                starting.start()
            kept = await client.call_tool("execute", {"session": "s", "code": "kept", "expect_incarnation": 1})
            assert "42" in text(kept), text(kept)
            if transport == "stdio":
                await anyio.to_thread.run_sync(starting.join)

    run(through)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_whose_answer_is_lost_waits_for_the_same_execution(gateway, mode):
    """`himalia mcp` sends it again, and the code runs once."""
    code = (
        "from pathlib import Path\nimport time\nPath('runs').open('a').write('x'); Path('began').touch()\n"
        "while not Path('go').exists(): time.sleep(0.05)\nprint('runs', Path('runs').read_text())"
    )

    async def lost():
        async with agent(gateway, "stdio", mode) as client, agent(gateway) as other:
            made = await other.call_tool("session", {"op": "create", "name": "s"})

            async def killed():
                began = {"op": "read", "session": "s", "path": "began"}
                while (await other.call_tool("files", began)).is_error:
                    await anyio.sleep(0.05)
                await anyio.to_thread.run_sync(gateway.kill)
                await anyio.to_thread.run_sync(gateway.start)
                gateway.http.put(f"v1/sessions/{whole(made)['id']}/files/go", content=b"").raise_for_status()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(killed)
                done = await client.call_tool("execute", {"session": "s", "code": code})
            assert not done.is_error and "runs x\n" in text(done), text(done)

    run(lost)


def test_a_session_is_attached_to_and_has_limits_and_labels(shared):
    async def sessions():
        async with agent(shared) as client:

            async def session(**arguments):
                return await client.call_tool("session", arguments)

            offered = whole(await session(op="templates"))["templates"]
            assert "python3" in {template["name"] for template in offered}
            first = await session(op="create", name="mine", labels={"team": "blue"}, limits={"output_bytes": 50_000_000})
            made = whole(first)
            assert made["labels"] == {"team": "blue"}, text(first)
            shown = shared.http.get("v1/sessions/mine").json()
            assert shown["limits"]["output_bytes"]["value"] == 50_000_000
            taken = await session(op="create", name="mine")
            assert taken.is_error and whole(taken)["code"] == "conflict"
            again = await session(op="create", name="mine", attach=True)
            assert whole(again)["id"] == made["id"]
            listed = await session(op="list", labels={"team": "blue"})
            assert [one["id"] for one in whole(listed)["sessions"]] == [made["id"]]
            nameless = await session(op="create", attach=True)
            assert nameless.is_error and "attach" in text(nameless)
            wrong = await session(op="create", limits={"memory": 1})
            assert wrong.is_error and "memory" in text(wrong)

            keyed = await session(op="create", idempotency_key="k")
            same = await session(op="create", idempotency_key="k")
            assert whole(keyed)["id"] == whole(same)["id"] != made["id"]

            call = {"session": "mine", "code": "n = globals().get('n', 0) + 1\nn", "idempotency_key": "once"}
            ran = whole(await client.call_tool("execute", call))
            assert whole(await client.call_tool("execute", call))["id"] == ran["id"]
            slow = {"session": "mine", "code": "import time\ntime.sleep(2)\nprint('late')", "timeout_s": 0.2}
            detached = await client.call_tool("execute", {**slow, "on_timeout": "detach"})
            assert whole(detached)["status"] == "running" and whole(detached)["detached"]
            bare = await client.call_tool("execute", {"session": "mine", "code": "1", "on_timeout": "detach"})
            assert bare.is_error and "on_timeout" in text(bare)

            for one in (made["id"], whole(keyed)["id"]):
                assert not (await session(op="close", session=one)).is_error
            gone = whole(await session(op="restart", session=made["id"]))
            assert (gone["code"], gone["session"]) == ("session_ended", made["id"])
            assert gone["reason"] == "killed_by_user" and gone["ended"]

    run(sessions)
