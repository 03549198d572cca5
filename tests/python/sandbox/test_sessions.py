"""Warm starts and branches at every level, with real kernels."""

import re
import time

import pytest
from agents import agent
from agents import run as agent_run
from channels import Channels
from waiting import eventually


def warm(gateway, name="pooled"):
    """Wait until the pool has a kernel."""

    def ready():
        pools = gateway.http.get("v1/pools").json()["pools"]
        return any(pool["template"] == name and pool["ready"] for pool in pools)

    eventually(ready, "a pooled kernel", 120)


def test_a_pooled_kernel_gets_its_identity_at_the_claim_and_no_trace_of_it_is_left(gateway):
    warm(gateway)
    made = gateway.session("pooled", env={"COLOUR": "blue", "TZ": "Asia/Tokyo"}, secrets={"API_KEY": "canary"})
    assert made["started_by"] == "pool", made
    with Channels(gateway, made["id"]) as client:
        seen = client.run("import os, sys, time; print(os.environ['COLOUR'], os.environ['API_KEY'], time.tzname[0], os.getcwd(), 'pandas' in sys.modules)")
        assert seen.text() == "blue canary JST /session True\n"
        assert seen.content["execution_count"] == 1
        assert client.run("print(len(In), [name for name in Out], 'can' + 'ary' in repr(In))").text() == "3 [] False\n"
        events = gateway.http.get(f"v1/sessions/{made['id']}").text
        assert "canary" not in events
    gateway.end(made["id"])


def test_jupyter_clients_use_the_same_pool(gateway):
    warm(gateway)
    reply = gateway.http.post("api/kernels", json={"name": "pooled"})
    assert reply.status_code == 201 and reply.headers["x-himalia-started-by"] == "pool", (reply.text, dict(reply.headers))
    gateway.delete_kernel(reply.json()["id"])


def test_a_variable_that_is_read_at_start_makes_a_cold_start_and_the_reply_says_so(gateway):
    made = gateway.session("pooled", env={"PYTHONHASHSEED": "7"})
    assert made["started_by"] == "cold", made
    with Channels(gateway, made["id"]) as client:
        assert client.run("import sys; print(sys.flags.hash_randomization, __import__('os').environ['PYTHONHASHSEED'])").text().endswith("7\n")
    gateway.end(made["id"])


def test_a_claim_has_limits_of_its_own_which_hold(gateway):
    warm(gateway)
    wanted = {"memory_bytes": 300 << 20, "pids": 60, "output_bytes": 20 << 20}
    made = gateway.session("pooled", limits=wanted)
    if "gvisor" in gateway.level:
        assert made["started_by"] == "cold" and made["start_reason"] == "limits.memory_bytes cannot be changed by this runtime", made
    elif made["limits"]["pids"]["enforcement"] == "rlimit":
        assert made["started_by"] in ("cold", "zygote") and made["start_reason"] == "limits.pids is set when a process starts", made
    else:
        assert made["started_by"] == "pool" and not made.get("start_reason"), made
    assert {name: made["limits"][name]["value"] for name in wanted} == wanted
    with Channels(gateway, made["id"]) as client:
        # Of 48 MiB the log keeps what fits into its segments of 16 MiB.
        client.run("for _ in range(48): print('x' * (1 << 20), flush=True)")
        logs = [file for file in (gateway.directory / "data" / "kernels").glob("*/*") if file.is_file()]
        assert sum(file.stat().st_size for file in logs) < 44 << 20
        # The template gives 512 MiB.
        client.submit("held = []\nwhile len(held) < 60: held.append(b'x' * (8 << 20))")
        eventually(lambda: gateway.show(made["id"])["state"] == "dead", "the end out of memory", 60)
    assert gateway.show(made["id"])["reason"].startswith("oom"), gateway.show(made["id"])
    gateway.end(made["id"])


def test_a_model_reads_which_limit_of_memory_was_too_small(gateway):
    made = gateway.session("plain")

    async def execute():
        async with agent(gateway) as client:
            code = "held = []\nwhile True: held.append(b'x' * (8 << 20))"
            return await client.call_tool("execute", {"session": made["id"], "code": code})

    reply = agent_run(execute)
    assert reply.is_error and "out of memory (the limit of the session is 512 MiB)" in reply.content[0].text, reply.content[0].text
    gateway.end(made["id"])


@pytest.mark.parametrize("template", ["plain", "pooled"])
def test_tracebacks_name_files_by_paths_of_the_sandbox(gateway, template):
    made = gateway.session(template)
    with Channels(gateway, made["id"]) as client:
        for code in ("import pandas\npandas.DataFrame()['x']", "import json\njson.loads('{')"):
            shown = "\n".join(client.run(code).of("error")[0]["content"]["traceback"])
            files = re.findall(r"File (/[^:]+):", re.sub("\x1b\\[[0-9;]*m", "", shown))
            assert files and all(file.startswith(("/himalia/", "/opt/himalia/", "/usr/lib/")) for file in files), shown
            assert client.run(f"print(all(len(open(file).read()) > 100 for file in {files}))").text() == "True\n"
    gateway.end(made["id"])


def test_branches_go_their_own_ways_and_the_parent_is_as_it_was(gateway, session):
    with Channels(gateway, session["id"]) as client:
        client.run("import pandas as pd, random; df = pd.DataFrame({'a': range(1000)}); open('note.txt', 'w').write('parent'); random.seed(1)")
        reply = gateway.http.post(f"v1/sessions/{session['id']}/fork", json={"count": 3, "policy": "report"})
        assert reply.status_code in (200, 201), reply.text
        branches = [branch["session"] for branch in reply.json()["branches"]]
        assert {branch["started_by"] for branch in branches} == {"fork"}
        assert {branch["parent"] for branch in branches} == {session["id"]}
        randoms = set()
        for number, branch in enumerate(branches):
            with Channels(gateway, branch["id"]) as own:
                done = own.run(f"df['a'] += {number}; open('note.txt', 'w').write('branch'); print(int(df.a.sum()), len(In))")
                assert int(done.text().split()[0]) == 499_500 + 1000 * number, done
                randoms.add(own.run("print(random.random())").text())
        assert len(randoms) == 3
        assert client.run("print(int(df.a.sum()), open('note.txt').read())").text() == "499500 parent\n"
        # One dies, the others do not notice.
        with Channels(gateway, branches[0]["id"]) as own:
            own.submit("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
            eventually(lambda: gateway.show(branches[0]["id"])["state"] == "dead", "the branch is dead", 30)
        with Channels(gateway, branches[1]["id"]) as own:
            assert own.run("print(len(df))").text() == "1000\n"
        for branch in branches:
            gateway.end(branch["id"])
        assert client.run("print(len(df))").text() == "1000\n"


def test_branches_outlive_their_parent_and_the_gateway(gateway):
    parent = gateway.session()["id"]
    with Channels(gateway, parent) as client:
        client.run("kept = [1, 2, 3]")
    reply = gateway.http.post(f"v1/sessions/{parent}/fork", json={"count": 1, "policy": "report"})
    branch = reply.json()["branches"][0]["session"]["id"]
    gateway.end(parent)
    with Channels(gateway, branch) as own:
        assert own.run("print(kept)").text() == "[1, 2, 3]\n"
    gateway.kill()
    gateway.start()
    eventually(lambda: gateway.show(branch)["state"] == "idle", "the branch was taken over", 60)
    with Channels(gateway, branch) as own:
        assert own.run("print(sum(kept))").text() == "6\n"
    gateway.end(branch)


def test_a_busy_session_is_not_forked_and_says_so(gateway, session):
    with Channels(gateway, session["id"]) as client:
        client.submit("import time; print('on', flush=True); time.sleep(600)")
        client.until(lambda m: m["msg_type"] == "stream")
        reply = gateway.http.post(f"v1/sessions/{session['id']}/fork", json={"count": 1})
        assert reply.status_code == 409 and reply.json()["retryable"] is True, reply.text
        started = time.monotonic()
        gateway.interrupt(session["id"])
        client.until(lambda m: m["msg_type"] == "execute_reply")
        assert time.monotonic() - started < 30
