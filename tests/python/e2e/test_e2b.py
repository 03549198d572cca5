"""E2B's own Python clients, unmodified, on a gateway that serves them: only environment variables point them here."""

import re

import e2b
import httpx
import pytest
from e2b import SandboxQuery, SandboxState
from e2b_code_interpreter import AsyncSandbox, Sandbox
from e2b_gateway import example, pointed, run_example, sandbox, served, variables  # noqa: F401 (fixtures)
from servers import Himalia
from waiting import eventually


def test_the_first_example_of_the_code_interpreter(pointed):
    code = example("e2b-code-interpreter", "### 3. Execute code with code interpreter inside Sandbox")
    assert "print(execution.text)  # outputs 2" in code
    assert run_example(pointed, code) == "2\n"
    assert pointed.http.get("v1/sessions").json()["sessions"] == []


def test_output_is_streamed_and_results_have_their_forms(sandbox):
    printed, results, errors = [], [], []
    execution = sandbox.run_code(
        "import sys\nprint('ä😀')\nprint('oops', file=sys.stderr)\nfrom IPython.display import HTML, JSON, display\n"
        "display(HTML('<b>x</b>'))\ndisplay(JSON({'a': [1]}))\n'text'",
        on_stdout=lambda message: printed.append((message.line, message.error)),
        on_stderr=lambda message: printed.append((message.line, message.error)),
        on_result=results.append,
        on_error=errors.append,
    )
    assert execution.logs.stdout == ["ä😀\n"] and execution.logs.stderr == ["oops\n"]
    assert printed == [("ä😀\n", False), ("oops\n", True)] and errors == []
    assert execution.text == "text" and execution.execution_count == 1 and execution.error is None
    html, document, main = execution.results
    assert html.html == "<b>x</b>" and document.json == {"a": [1]} and main.is_main_result
    assert [one.formats() for one in results] == [one.formats() for one in execution.results]

    failed = sandbox.run_code("1 / 0", on_error=errors.append)
    assert failed.error.name == "ZeroDivisionError" and failed.error.value == "division by zero"
    assert "1 / 0" in failed.error.traceback and len(errors) == 1


def test_code_that_ignores_interrupts_is_named_to_the_next_caller(sandbox, served):
    stubborn = "import time\nfor _ in range(300):\n  try: time.sleep(1)\n  except BaseException: pass"
    with pytest.raises(e2b.TimeoutException):
        sandbox.run_code(stubborn, timeout=1)
    [run] = served.http.get(f"v1/sessions/{sandbox.sandbox_id}/executions").json()["executions"]
    behind = sandbox.run_code("1")
    assert behind.error.name == "ExecutionStuck", behind
    assert f"waits for {run['id']}" in behind.error.value and "restart" in behind.error.value, behind.error.value
    sandbox.restart_code_context(sandbox.sandbox_id)
    assert sandbox.run_code("1").text == "1"


def test_an_image_is_in_the_result(sandbox):
    drawn = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()")
    (figure,) = drawn.results
    assert figure.png.startswith("iVBORw0KGgo") and not figure.is_main_result


def test_variables_of_one_execution_end_with_it(sandbox):
    shown = "import os; os.environ.get('ONE'), os.environ.get('HOME')"
    home = sandbox.run_code("import os; os.environ['HOME']").text
    assert sandbox.run_code(shown, envs={"ONE": "a\"b'", "HOME": "/x"}).text == "('a\"b\\'', '/x')"
    assert sandbox.run_code(shown).text == f"(None, '{home}')"
    failed = sandbox.run_code("import os\nos.environ['ONE'] = 'changed'\n1 / 0", envs={"ONE": "1"})
    assert failed.error.name == "ZeroDivisionError" and "ONE" not in failed.error.traceback.split("1 / 0")[-1]
    assert sandbox.run_code(shown).text == f"(None, '{home}')"
    assert sandbox.run_code("echo $ONE", language="bash", envs={"ONE": "2"}).logs.stdout == ["2\n"]


IMAGE = "from PIL import Image\nimage = Image.new('RGB', (2, 2))\n"


@pytest.mark.parametrize("last", ["image.show()", "image.save('image.png')", "image"])
def test_images_are_shown_as_by_the_kernel_of_the_service(sandbox, last):
    """Once each, also where the machine has programs that show images on a screen."""
    (result,) = sandbox.run_code(IMAGE + last).results
    assert result.png


def test_charts_and_tables_are_data(sandbox):
    def chart(code):
        (result,) = sandbox.run_code("import matplotlib.pyplot as plt\n" + code + "\nplt.show()").results
        assert result.png and result.chart, result.formats()
        return result.chart

    line = chart("plt.plot([1, 2], [3, 4], label='a')\nplt.xlabel('Time (s)')\nplt.title('T')")
    assert (line.type, line.title, line.x_label, line.x_unit) == ("line", "T", "Time (s)", "s")
    assert [(one.label, one.points) for one in line.elements] == [("a", [(1, 3), (2, 4)])]
    dates = chart("import datetime as d\nplt.plot([d.date(2024, 1, 1), d.date(2024, 1, 2)], [1, 2])")
    assert dates.x_scale == "datetime" and dates.elements[0].points[1] == ("2024-01-02T00:00:00", 2)
    bars = chart("plt.bar(['x', 'y'], [1, 2], label='g')")
    assert [(one.label, one.group, one.value) for one in bars.elements] == [("x", "g", 1), ("y", "g", 2)]
    pie = chart("plt.pie([1, 3], labels=['x', 'y'])")
    assert [(one.label, one.angle) for one in pie.elements] == [("x", 90), ("y", 270)]
    (box,) = chart("plt.boxplot([[1, 2, 3, 4, 100]])").elements
    assert (box.min, box.first_quartile, box.median, box.third_quartile, box.max, box.outliers) == (1, 2, 3, 4, 4, [100])
    both = chart("f, (a, b) = plt.subplots(1, 2)\na.scatter([1], [2])\nb.barh(['z'], [5])\nf.suptitle('S')")
    assert (both.type, both.title, [one.type for one in both.elements]) == ("superchart", "S", ["scatter", "bar"])
    frame = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 't': pd.to_datetime(['2024-01-01', None])})")
    assert frame.results[0].data == {"a": [1, 2], "t": ["2024-01-01T00:00:00", None]}


def test_a_long_line_of_output_arrives_as_it_is(sandbox):
    long = sandbox.run_code("print('ü' * 300_000)\n'y' * 50_000")
    assert "".join(long.logs.stdout) == "ü" * 300_000 + "\n"
    assert long.text == "y" * 50_000


def test_contexts_are_kernels_of_the_sandbox(sandbox):
    sandbox.run_code("x = 1")
    (default,) = sandbox.list_code_contexts()
    assert default.id == sandbox.sandbox_id and default.language == "python"
    other = sandbox.create_code_context(language="python")
    assert {one.id for one in sandbox.list_code_contexts()} == {default.id, other.id}
    assert sandbox.run_code("x", context=other).error.name == "NameError"
    sandbox.run_code("x = 5", context=other)
    assert sandbox.run_code("x", context=other).text == "5" and sandbox.run_code("x").text == "1"
    sandbox.restart_code_context(other)
    assert sandbox.run_code("x", context=other).error.name == "NameError"
    sandbox.remove_code_context(other)
    with pytest.raises(e2b.NotFoundException, match=other.id):
        sandbox.run_code("1", context=other)
    assert [one.id for one in sandbox.list_code_contexts()] == [default.id]
    with pytest.raises(e2b.SandboxException, match="first kernel"):
        sandbox.remove_code_context(default)


def test_languages(sandbox):
    assert sandbox.run_code("echo $((6 * 7))", language="bash").logs.stdout == ["42\n"]
    assert sandbox.run_code("6 * 7", language="python").text == "42"
    with pytest.raises(e2b.SandboxException, match='no kernel runs "cobol"'):
        sandbox.run_code("x", language="cobol")


def test_a_client_that_leaves_interrupts_its_code(sandbox):
    with pytest.raises(e2b.TimeoutException):
        sandbox.run_code("import time\nn = 0\nwhile True:\n    n += 1; time.sleep(0.05)", timeout=2)
    assert int(sandbox.run_code("n", timeout=30).text) > 0, "the kernel is free, and its variables are there"


def test_a_kernel_that_dies_is_reported(sandbox):
    died = sandbox.run_code("import os\nos._exit(3)")
    assert died.error.name == "KernelDied" and "exit(3)" in died.error.value
    assert sandbox.run_code("1 + 1").text == "2"


def test_sandboxes_are_found_changed_and_ended(pointed):
    first = Sandbox.create(timeout=100, metadata={"user": "ä 1", "n&=": "x+y"}, envs={"WHO": "me"})
    second = Sandbox.create("code-interpreter-v1", metadata={"user": "2"})
    assert first.run_code("import os; os.environ['WHO'], os.environ['E2B_SANDBOX']").text == "('me', 'true')"
    info = first.get_info()
    assert info.sandbox_id == first.sandbox_id and info.metadata == {"user": "ä 1", "n&=": "x+y"}
    assert info.state == SandboxState.RUNNING
    assert 90 < (info.end_at - info.started_at).total_seconds() < 130
    first.set_timeout(1000)
    longer = first.get_info().end_at
    assert (longer - info.end_at).total_seconds() > 800
    first.connect(timeout=10)
    assert first.get_info().end_at == longer, "connecting takes no time away"
    other = Sandbox.connect(first.sandbox_id, timeout=2000)
    assert other.run_code("6 * 7").text == "42"
    assert first.get_info().end_at > longer

    found = Sandbox.list(query=SandboxQuery(metadata={"n&=": "x+y"})).next_items()
    assert [one.sandbox_id for one in found] == [first.sandbox_id]
    for order, ids in [("asc", [first.sandbox_id, second.sandbox_id]), ("desc", [second.sandbox_id, first.sandbox_id])]:
        pages, paginator = [], Sandbox.list(limit=1, order=order)
        while paginator.has_next:
            pages.append([one.sandbox_id for one in paginator.next_items()])
        assert pages == [[one] for one in ids]
    assert Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items() == []
    # Names of E2B's templates stand for the default one, as in `create`.
    for template, count in [("base", 2), ("python3", 2), ("other", 0)]:
        answer = pointed.http.get("e2b/v2/sandboxes", params={"template": template, "limit": "1"}, headers={"X-API-KEY": pointed.token})
        assert (len(answer.json()), answer.headers["x-total-running"]) == (min(count, 1), str(count)), template

    assert first.is_running() and first.kill() is True
    assert not first.is_running() and first.kill() is False
    with pytest.raises(e2b.TimeoutException):
        first.run_code("1")
    with pytest.raises(e2b.NotFoundException):
        first.get_info()
    with pytest.raises(e2b.NotFoundException):
        Sandbox.connect(first.sandbox_id)
    assert second.get_metrics()[0].cpu_count >= 1
    assert Sandbox.kill(second.sandbox_id) is True


def test_a_sandbox_ends_with_its_timeout(pointed):
    sandbox = Sandbox.create(timeout=3)
    eventually(lambda: not sandbox.is_running(), "the sandbox ends", 30)
    # For its clients it ends at its second, the session with the next look at lifetimes.
    eventually(lambda: pointed.http.get(f"v1/sessions/{sandbox.sandbox_id}").json()["reason"] == "ttl", "the session ends", 60)


def test_a_start_with_a_key_is_one_sandbox(pointed):
    first = Sandbox.create(idempotency_key="one-job")
    again = Sandbox.create(idempotency_key="one-job")
    other = Sandbox.create(idempotency_key="another-job")
    assert first.sandbox_id == again.sandbox_id != other.sandbox_id


def test_a_sandbox_is_a_session(sandbox, pointed):
    sandbox.run_code("shared = 5")
    ran = pointed.http.post(f"v1/sessions/{sandbox.sandbox_id}/executions", json={"code": "shared + 1"}).json()
    assert ran["outputs"][0]["data"]["text/plain"] == "6"
    listed = pointed.http.get(f"v1/sessions/{sandbox.sandbox_id}/executions").json()["executions"]
    assert listed[0]["client"]


def test_what_is_not_offered_is_refused_by_name(pointed, sandbox):
    for options, name in [
        ({"lifecycle": {"on_timeout": "pause"}}, "autoPause"),
        ({"network": {"allow_out": ["example.com"]}}, "network.allowOut"),
        ({"volume_mounts": {"/data": "vol"}}, "volumeMounts"),
        ({"envs": {"A=B": "x"}}, "envVars.A=B"),
        ({"template": "nothing"}, "nothing"),
    ]:
        with pytest.raises(e2b.SandboxException, match=re.escape(name)):
            Sandbox.create(**options)
    with pytest.raises(e2b.SandboxException, match="does not pause"):
        sandbox.pause()
    with pytest.raises(e2b.SandboxException, match="snapshots"):
        sandbox.create_snapshot()
    assert Sandbox.list_snapshots().next_items() == []
    with pytest.raises(e2b.SandboxException, match="network"):
        sandbox.update_network({"allow_out": ["example.com"]})
    with pytest.raises(e2b.SandboxException, match="env_vars"):
        sandbox.run_code("1", envs={"A=B": "b"})


def test_every_request_is_authenticated(pointed, sandbox, monkeypatch):
    base = f"{pointed.url.rstrip('/')}/e2b"
    token = sandbox._envd_access_token
    named = {"E2b-Sandbox-Id": sandbox.sandbox_id}
    with httpx.Client(trust_env=False) as plain:
        assert plain.get(f"{base}/health", headers=named).status_code == 401
        assert plain.get(f"{base}/health", headers={**named, "X-Access-Token": token}).status_code == 204
        traffic = {**named, "E2B-Traffic-Access-Token": token}
        assert plain.get(f"{base}/contexts", headers=traffic).status_code == 200
        other = Sandbox.create()
        wrong = {"E2b-Sandbox-Id": other.sandbox_id, "X-Access-Token": token}
        refused = plain.get(f"{base}/health", headers=wrong)
        assert refused.status_code == 401 and refused.json()["code"] == 401
        # The token of a sandbox is none for the control plane.
        for headers in ({**named, "X-Access-Token": token}, {"X-API-KEY": token}):
            assert plain.get(f"{base}/v2/sandboxes", headers=headers).status_code == 401
    monkeypatch.setenv("E2B_API_KEY", "wrong")
    with pytest.raises(e2b.AuthenticationException):
        Sandbox.create()


def test_a_revoked_key_ends_what_it_issued(pointed, monkeypatch):
    made = pointed.http.post("v1/tokens", json={"caller": "ci", "scope": "execute"}).json()
    monkeypatch.setenv("E2B_API_KEY", made["token"])
    sandbox = Sandbox.create()
    assert sandbox.run_code("1 + 1").text == "2"
    assert pointed.http.delete(f"v1/tokens/{made['id']}").status_code == 200

    def refused():
        try:
            sandbox.run_code("1 + 1")
        except httpx.TransportError:  # on a connection that ended with the key
            return False
        except e2b.SandboxException as error:
            return "401" in str(error)
        raise AssertionError("a revoked key runs code")

    eventually(refused, "the key is refused")
    with pytest.raises(e2b.AuthenticationException):
        sandbox.get_info()


def test_another_tenants_sandbox_is_not_there(tmp_path, kernel_python, monkeypatch):
    ada, eve = "ada-0123456789abcdef", "eve-0123456789abcdef"
    (tmp_path / "himalia.toml").write_text(
        f'[tenants.acme.tokens]\nada = "{ada}"\n[tenants.evil.tokens]\neve = "{eve}"\n'
    )
    (tmp_path / "himalia.toml").chmod(0o600)
    gateway = Himalia(tmp_path / "gateway", "--e2b", "--config", str(tmp_path / "himalia.toml"))
    try:
        for name, value in variables(gateway).items():
            monkeypatch.setenv(name, value)
        sandbox = Sandbox.create(api_key=ada)
        assert sandbox.run_code("6 * 7").text == "42"
        theirs = {"api_key": eve}
        assert Sandbox.list(**theirs).next_items() == []
        assert Sandbox.kill(sandbox.sandbox_id, **theirs) is False
        unknown = sandbox.sandbox_id[:-4] + "0000"
        for id in (sandbox.sandbox_id, unknown):
            with pytest.raises(e2b.NotFoundException, match="not found"):
                Sandbox.connect(id, **theirs)
            with pytest.raises(e2b.NotFoundException):
                Sandbox.set_timeout(id, 5, **theirs)
        named = {"E2b-Sandbox-Id": sandbox.sandbox_id}
        key = {"X-API-KEY": eve}
        base = f"{gateway.url.rstrip('/')}/e2b"
        with httpx.Client(trust_env=False) as plain:
            assert plain.get(f"{base}/health", headers={**named, **key}).status_code == 502
            assert plain.get(f"{base}/health", headers={**named, "X-API-KEY": ada}).status_code == 204
            mine = Sandbox.create(**theirs)
            token = {"X-Access-Token": mine._envd_access_token}
            assert plain.get(f"{base}/health", headers={**named, **token}).status_code == 401
        assert sandbox.run_code("6 * 7").text == "42"
    finally:
        gateway.stop()


def test_the_async_client(pointed):
    import asyncio

    async def work():
        sandbox = await AsyncSandbox.create()
        try:
            lines = []
            execution = await sandbox.run_code("print('a')\n6 * 7", on_stdout=lambda message: lines.append(message.line))
            context = await sandbox.create_code_context()
            inside = await sandbox.run_code("1 + 1", context=context)
            return execution.text, lines, inside.text, len(await sandbox.list_code_contexts())
        finally:
            await sandbox.kill()

    assert asyncio.run(work()) == ("42", ["a\n"], "2", 2)


def test_without_the_setting_there_is_no_such_api(shared):
    assert shared.http.get("e2b/v2/sandboxes").status_code == 404
