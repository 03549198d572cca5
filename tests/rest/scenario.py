"""The examples of the REST reference: one request for each operation, in an order in which each one has something to show."""

import base64
import hashlib
import hmac
import io
import json
import tarfile
import time
from urllib.parse import parse_qs, urlsplit

MAIN = 'def main(month):\n    return {"month": month, "charges": 12}\n'
INPUTS = {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]}
MANIFEST = {
    "name": "charges",
    "version": "1.0.0",
    "kind": "code",
    "description": "Counts the charges of a month.",
    "inputs": INPUTS,
    "outputs": {"type": "object", "properties": {"charges": {"type": "integer"}}, "required": ["charges"]},
}
WORKFLOW = {
    "name": "monthly",
    "version": "1.0.0",
    "description": "Counts the charges of a month, and asks a person.",
    "inputs": INPUTS,
    "steps": [
        {"id": "count", "skill": {"name": "charges"}, "inputs": {"month": {"from": "inputs.month"}}},
        {
            "id": "sign",
            "approval": {"text": "Pay these?", "options": ["pay", "stop"]},
            "inputs": {"charges": {"from": "steps.count.outputs.charges"}},
        },
    ],
    "outputs": {"decision": {"from": "steps.sign.outputs.answer"}},
}
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()"
STATEMENT = "import pandas as pd\ndf = pd.DataFrame(dict(amount=[1, 2], stock=[5, 3]))\nprint(len(df))\ndf"


def run(rest, services):
    """Sends all of them, with a recorder."""
    sessions(rest)
    execution, image = executions(rest)
    prompts(rest, services)
    contents(rest, execution, image)
    tools(rest)
    skills(rest, services)
    workflows(rest)
    schedules(rest, services)
    webhooks(rest, services)
    access(rest, services)
    ends(rest)


def sessions(rest):
    rest.example("get_description", headers={"If-None-Match": "*"}, statuses=(200, 304))
    rest.example("list_templates")
    rest.until(lambda: rest.call("GET", "/v1/pools")["pools"][0]["ready"], "the pool is full")
    rest.example("list_pools")
    rest.example("create_session", {"name": "eda", "template": "agent", "labels": {"project": "sales"}})
    rest.example("put_session", {"template": "agent"}, session_id="eda")
    rest.example("get_session", session_id="eda")
    rest.example("list_sessions", query={"label": "project=sales", "limit": 10})
    rest.example("update_session", {"labels": {"stage": "load"}, "idle_timeout_s": 3600}, session_id="eda")


def executions(rest):
    result = rest.example("execute", {"code": STATEMENT, "timeout_s": 60}, session_id="eda")
    execution = result["id"]
    rest.example("get_execution", query={"wait_s": 30}, execution_id=execution)
    rest.example("get_execution_output", query={"limit": 1000}, execution_id=execution)
    rest.example("stream_execution_events", headers={"Accept": "text/event-stream"}, stream=4, execution_id=execution)
    rest.example("list_executions", query={"order": "desc", "limit": 10}, session_id="eda")
    plot = rest.call("POST", "/v1/sessions/eda/executions", {"code": PLOT})
    image = plot["outputs"][0]["data"]["image/png"]["artifact"]
    asked = rest.call("POST", "/v1/sessions/eda/executions", {"code": "name = input('Your name: ')", "allow_stdin": True, "background": True})
    rest.until(lambda: rest.call("GET", f"/v1/executions/{asked['id']}").get("input"), "the code asks")
    rest.example("answer_execution", {"value": "Ada"}, execution_id=asked["id"])
    long = rest.call("POST", "/v1/sessions/eda/executions", {"code": "import time\ntime.sleep(600)", "background": True})
    rest.until(lambda: rest.call("GET", f"/v1/executions/{long['id']}")["status"] == "running", "the code runs")
    rest.example("interrupt_execution", execution_id=long["id"])
    rest.call("GET", f"/v1/executions/{long['id']}?wait_s=30")
    rest.example("stream_session_events", query={"after": 0}, headers={"Accept": "text/event-stream"}, stream=2, session_id="eda")
    rest.example("stream_executions", query={"after": 0}, headers={"Accept": "application/x-ndjson"}, stream=4, session_id="eda")
    rest.example("get_session_usage", session_id="eda")
    return execution, image


def prompts(rest, services):
    asked = {"text": "Which region first?", "options": ["north", "south"], "timeout_s": 3600}
    prompt = rest.example("create_prompt", asked, session_id="eda")["id"]
    rest.example("list_prompts", query={"open": "true"}, session_id="eda")
    rest.example("list_open_prompts", query={"limit": 10})
    rest.example("get_prompt", query={"wait_s": 0}, prompt_id=prompt)
    rest.example("create_prompt_webhook", {"name": "desk", "url": f"{services.url}/prompts"})
    rest.example("list_prompt_webhooks")
    rest.until(lambda: rest.call("GET", "/v1/prompt-webhooks/desk/deliveries")["deliveries"], "the prompt is posted")
    rest.example("list_prompt_deliveries", prompt_webhook="desk")
    rest.example("delete_prompt_webhook", prompt_webhook="desk")
    rest.example("answer_prompt", {"value": "north"}, prompt_id=prompt)


def contents(rest, execution, image):
    rest.example("list_variables", query={"limit": 10}, session_id="eda")
    rest.example("get_variable", query={"limit": 10, "sort": "amount", "descending": "true"}, session_id="eda", name="df")
    rest.example("write_file", b"region,amount\nnorth,1\n", file="sales.csv", session_id="eda", path="sales.csv")
    rest.example("read_file", headers={"Range": "bytes=0-12"}, session_id="eda", path="sales.csv")
    rest.example("list_files", query={"depth": 2}, session_id="eda")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("data/costs.csv")
        member.size = 9
        tar.addfile(member, io.BytesIO(b"a,b\n1,2\n\n"))
    rest.example("upload_archive", archive.getvalue(), query={"path": "in"}, file="data.tar", session_id="eda")
    rest.example("download_archive", query={"path": "in"}, session_id="eda")
    rest.example("delete_file", query={"recursive": "true"}, session_id="eda", path="in")
    rest.example("list_artifacts", session_id="eda")
    rest.example("get_artifact", sha256=image.removeprefix("sha256:"))
    rest.example("list_history", query={"order": "desc", "limit": 2}, session_id="eda")
    rest.example("get_notebook", session_id="eda")
    rest.example("get_script", session_id="eda")
    # The first completion of a process loads a library.
    place = {"code": "prin", "cursor_pos": 4}
    rest.until(lambda: rest.send("POST", "/v1/sessions/eda/complete", place)[0] == 200, "the kernel completes")
    rest.example("complete_code", place, session_id="eda")
    rest.example("inspect_code", {"code": "len", "detail_level": 0}, session_id="eda")


def tools(rest):
    rest.until(lambda: rest.call("GET", "/v1/sessions/eda/tools/servers")["servers"][0]["ready"], "the server of tools is connected")
    rest.example("list_tool_servers", session_id="eda")
    rest.example("search_tools", query={"query": "open orders", "limit": 2}, session_id="eda")
    rest.example("get_tool", session_id="eda", tool="orders.list_orders")
    rest.example("call_tool", {"tool": "orders.list_orders", "arguments": {"customer": "ada"}}, session_id="eda")
    code = 'import himalia\nprint(await himalia.call("orders.create_order", customer="ada", amount=3))'
    rest.call("POST", "/v1/sessions/eda/executions", {"code": code, "background": True})
    waiting = rest.until(lambda: rest.call("GET", "/v1/sessions/eda/prompts?open=true")["prompts"], "a person is asked")
    rest.call("POST", f"/v1/prompts/{waiting[0]['id']}/answer", {"value": "always"})
    approval = rest.example("list_tool_approvals")["approvals"][0]["id"]
    rest.example("revoke_tool_approval", approval_id=approval)


def skills(rest, services):
    rest.example("publish_skill", {"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}})
    rest.example("list_skills")
    rest.example("get_skill", query={"version": "1.0.0"}, skill="charges")
    rest.call("POST", "/v1/sessions/eda/executions", {"code": "total = df.amount.sum()"})
    latest = rest.call("GET", "/v1/sessions/eda/history?order=desc&limit=1")["history"][0]
    draft = {"name": "total", "description": "Sums the amounts.", "cells": [latest["seq"]], "inputs": ["df"], "outputs": ["total"]}
    rest.example("draft_skill", draft, session_id="eda")
    made = rest.example("run_skill", {"inputs": {"month": "2026-10"}, "callback": f"{services.url}/results", "wait_s": 60}, skill="charges")
    run_id = made["id"]
    rest.example("get_run", query={"wait_s": 30}, run_id=run_id)
    rest.example("list_runs", query={"skill": "charges", "limit": 10})
    rest.example("stream_run_events", headers={"Accept": "text/event-stream"}, stream=4, run_id=run_id)
    tried = rest.until(lambda: [one for one in rest.call("GET", f"/v1/runs/{run_id}/deliveries")["deliveries"] if one["attempts"]], "the result is posted")
    rest.example("list_run_deliveries", run_id=run_id)
    # A retry is refused within 5 s after an attempt.
    rest.example("retry_delivery", delivery=tried[0]["id"], refused_until=429)


def workflows(rest):
    rest.example("publish_workflow", {"definition": WORKFLOW})
    rest.example("list_workflows")
    rest.example("get_workflow", workflow="monthly")
    run_id = rest.example("run_workflow", {"inputs": {"month": "2026-10"}, "wait_s": 0}, workflow="monthly")["id"]
    waits = lambda: rest.call("GET", f"/v1/runs/{run_id}")["steps"][1]["status"] == "waiting"  # noqa: E731
    rest.until(waits, "the step waits for a person")
    rest.example("get_run_step", run_id=run_id, step="count")
    rest.example("answer_run_step", {"value": "pay"}, run_id=run_id, step="sign")
    second = rest.call("POST", "/v1/workflows/monthly/runs", {"inputs": {"month": "2026-11"}, "wait_s": 0})["id"]
    rest.example("cancel_run", run_id=second)


def schedules(rest, services):
    asked = {"name": "monthly", "cron": "0 6 1 * *", "time_zone": "Europe/Berlin", "target": {"skill": "charges"}, "inputs": {"month": "2026-10"}}
    rest.example("create_schedule", {**asked, "callback": f"{services.url}/results"})
    run_id = rest.example("run_schedule", {"overlap": "allow"}, headers={"Idempotency-Key": "2026-10"}, schedule="monthly")["id"]
    rest.call("GET", f"/v1/runs/{run_id}?wait_s=60")
    rest.until(lambda: rest.call("GET", "/v1/schedules/monthly/deliveries")["deliveries"], "the result is posted")
    rest.example("list_schedules")
    rest.example("get_schedule", schedule="monthly")
    rest.example("list_schedule_deliveries", schedule="monthly")
    rest.example("update_schedule", {"enabled": False}, schedule="monthly")
    rest.example("delete_schedule", schedule="monthly")


def webhooks(rest, services):
    asked = {"name": "orders", "target": {"skill": "charges"}, "inputs": {"month": "2026-10"}, "callback": f"{services.url}/results"}
    made = rest.example("create_webhook", asked)
    body, stamp = json.dumps({}).encode(), str(int(time.time()))
    key = base64.b64decode(made["secret"].removeprefix("whsec_"))
    digest = base64.b64encode(hmac.new(key, f"msg_1.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
    signed = {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": f"v1,{digest}"}
    rest.call("POST", f"/hooks/{made['id']}", body, signed.items())
    rest.until(lambda: rest.call("GET", "/v1/webhooks/orders/deliveries")["deliveries"], "the result is posted")
    rest.example("list_webhooks")
    rest.example("get_webhook", webhook="orders")
    rest.example("list_webhook_deliveries", webhook="orders")
    rest.example("update_webhook", {"enabled": False}, webhook="orders")
    rest.example("delete_webhook", webhook="orders")


def access(rest, services):
    asked = {"caller": "ci", "scope": "execute", "expires_in_s": 86400, "description": "nightly tests"}
    token = rest.example("create_token", asked)["id"]
    rest.example("list_tokens", query={"caller": "ci"})
    rest.example("revoke_token", token_id=token)
    server = {"authorization_url": f"{services.url}/authorize", "token_url": f"{services.url}/token", "client_id": "himalia"}
    asked = {"kind": "oauth2", "grant": "authorization_code", "hosts": ["api.example.org"], "scope": "read", **server}
    rest.example("set_credential", asked, credential="crm")
    begun = rest.example("begin_grant", {"redirect_uri": "http://127.0.0.1:9/"}, credential="crm")
    state = parse_qs(urlsplit(begun["url"]).query)["state"][0]
    rest.example("finish_grant", {"state": state, "code": "SplxlOBeZQQYbYS6WxSbIA"})
    rest.example("list_credentials")
    rest.example("end_grant", credential="crm")
    rest.example("delete_credential", credential="crm")
    rest.example("get_usage")


def ends(rest):
    kernel = rest.example("create_kernel", {"env": {"STAGE": "report"}}, session_id="eda")["id"]
    rest.example("list_kernels", session_id="eda")
    rest.example("get_kernel", session_id="eda", kernel_id=kernel)
    rest.example("interrupt_kernel", session_id="eda", kernel_id=kernel)
    rest.example("restart_kernel", session_id="eda", kernel_id=kernel)
    rest.example("end_kernel", session_id="eda", kernel_id=kernel)
    rest.example("fork_session", {"count": 2, "labels": {"experiment": "a"}}, session_id="eda")
    rest.example("interrupt_session", session_id="eda")
    rest.example("restart_session", session_id="eda")
    rest.example("delete_workflow", workflow="monthly")
    rest.example("delete_skill", query={"version": "1.0.0"}, skill="charges")
    rest.example("end_session", session_id="eda")
    rest.example("collect_garbage", {"dry_run": True})
