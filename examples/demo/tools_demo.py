"""`make tools-demo`: code that calls tools, as skills, in a workflow, on a schedule.

Three services on loopback, four skills that call them without their keys, a workflow that waits for a person, and a monthly schedule.
Run with the kernels' Python: `examples/demo/tools_demo.py --himalia target/quick/himalia`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from gateway import Gateway, GatewayError
from terminal import bad, dim, good, heading, say

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "reconcile"
SKILLS = ["fetch-charges", "fetch-ledger", "compare", "report"]
sys.path.insert(0, str(EXAMPLE))

from upstreams import KEY, Upstreams  # noqa: E402

CONFIG = """
[credentials.shop]
kind = "bearer"
hosts = ["{payments}", "{ledger}", "{tickets}"]
value_file = "{directory}/shop.key"

[tool_servers.payments]
url = "{payments}/mcp"
description = "Charges of the shop."
credential = "shop"

[tool_servers.ledger]
openapi = "{ledger}/openapi.json"
description = "Its books."
credential = "shop"

[tool_servers.tickets]
openapi = "{tickets}/openapi.json"
description = "What people have to do."
credential = "shop"

[templates.python3]
kernelspec = "python3"
isolation = "namespaces"
network = "none"
tools = ["payments", "ledger", "tickets"]
tools_write = ["tickets.open_ticket"]
skills = true
"""

SCHEDULE = {
    "name": "monthly",
    "cron": "0 6 1 * *",
    "time_zone": "Europe/Berlin",
    "target": {"workflow": "monthly-reconciliation"},
}

FIND = """
import himalia
print(await himalia.tools_search("what was charged in a month", limit=3))
"""


def main():
    """Run the example; returns the exit status."""
    parser = argparse.ArgumentParser(description="Tools, skills, a workflow and a schedule: the charges of a month against the ledger.")
    parser.add_argument("--himalia", type=Path, default=ROOT / "target/quick/himalia", help="the gateway's program")
    parser.add_argument("--out", type=Path, default=ROOT / "target/demo", help="where the plot is saved")
    options = parser.parse_args()
    try:
        with Upstreams() as upstreams, Gateway(options.himalia, lambda directory: configured(directory, upstreams)) as gateway:
            return reconcile(gateway, upstreams, options.out)
    except GatewayError as error:
        say(bad(f"tools-demo: {error}"))
        return 1


def configured(directory, upstreams):
    """The configuration of the gateway; the key is in a file beside it."""
    (directory / "shop.key").write_text(KEY)
    return CONFIG.format(directory=directory, **{name: upstreams.url(name) for name in ("payments", "ledger", "tickets")})


def reconcile(gateway, upstreams, out):
    """Find, publish, schedule, run, answer, read. Returns the exit status."""
    heading("1. find a tool, from code")
    session = gateway.request("POST", "/v1/sessions", {"template": "python3"})["id"]
    found = gateway.request("POST", f"/v1/sessions/{session}/executions", {"code": FIND, "wait_s": 60})["text"].strip()
    for line in found.splitlines():
        say(f"  │ {line}")
    say(dim("  the sandbox has no network, and the key of the services is not in it"))
    gateway.request("DELETE", f"/v1/sessions/{session}")

    heading("2. four skills, tested and published")
    for skill in SKILLS:
        folder = EXAMPLE / "skills" / skill
        if json.loads((folder / "skill.json").read_text()).get("tests"):
            say(f"  {last_line(command(gateway, 'skill', 'test', folder))}")
        say(f"  {last_line(command(gateway, 'skill', 'publish', folder))}")

    heading("3. a workflow of them, and a schedule")
    say(f"  {last_line(command(gateway, 'workflow', 'publish', EXAMPLE / 'monthly.json'))}")
    schedule = gateway.request("POST", "/v1/schedules", SCHEDULE)
    say(f"  {schedule['cron']} in {schedule['time_zone']}: next at {schedule['next']}")

    heading("4. this month's run, now")
    started = time.monotonic()
    run = gateway.request("POST", f"/v1/schedules/{schedule['name']}/runs")["id"]
    shown = wait_for_a_person(gateway, run)
    say(f"  after {time.monotonic() - started:.1f} s the run waits for a person: {len(shown['differences'])} differences, for example")
    for difference in shown["differences"][:3]:
        say(f"  │ {difference['charge']}  {difference['kind']:<10}  charged {difference['charged']}, booked {difference['booked']}")
    answer = ask("  Open a ticket about them? [open/stop] ", ["open", "stop"])
    gateway.request("POST", f"/v1/runs/{run}/steps/agree/answer", {"value": answer})
    ended = gateway.request("GET", f"/v1/runs/{run}?wait_s=50")
    for step in ended["steps"]:
        say(f"  {step['id']:<8} {(good if step['status'] == 'succeeded' else bad)(step['status'])}")
    if ended["status"] != "succeeded":
        return 0 if answer == "stop" else 1

    heading("5. the report")
    say(f"  {ended['outputs']['summary']}")
    for number, ticket in enumerate(upstreams.tickets, 1):
        say(f"  ticket T-{number}: {ticket['title']}")
    attempt = gateway.request("GET", f"/v1/runs/{run}/steps/report")["attempts"][-1]
    result = gateway.request("GET", f"/v1/executions/{attempt['execution']}")
    out.mkdir(parents=True, exist_ok=True)
    for artifact in result["artifacts"]:
        saved = out / Path(artifact["name"]).name
        saved.write_bytes(gateway.download(f"/v1/artifacts/{artifact['artifact']}"))
        say(f"  {artifact['name']} saved as {os.path.relpath(saved)}")

    heading("Look at it in the viewer")
    say(f"  {gateway.url}#token={gateway.token}")
    if sys.stdin.isatty() and sys.stdout.isatty():
        say(dim("\nEnter ends the demo."))
        input()
    say(good("done"))
    return 0


def wait_for_a_person(gateway, run):
    """Until the step `agree` of a run waits for an answer; returns what the person is shown."""
    while True:
        seen = gateway.request("GET", f"/v1/runs/{run}?wait_s=1")
        if seen["status"] not in ("queued", "running"):
            raise GatewayError(f"the run has {seen['status']}: {seen.get('error')}")
        if any(step["id"] == "agree" and step["status"] == "waiting" for step in seen["steps"]):
            return gateway.request("GET", f"/v1/runs/{run}/steps/agree")["inputs"]


def ask(question, options):
    """What the person at the terminal answers; without one, the first option."""
    while sys.stdin.isatty() and sys.stdout.isatty():
        answer = input(question).strip() or options[0]
        if answer in options:
            return answer
    say(question + options[0])
    return options[0]


def command(gateway, *arguments):
    """What `himalia` says, as a user of this gateway."""
    environment = {**os.environ, "HIMALIA_URL": gateway.url, "HIMALIA_TOKEN": gateway.token, "NO_COLOR": "1"}
    done = subprocess.run([gateway.program, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise GatewayError(f"himalia {arguments[0]} {arguments[1]}: {done.stdout}{done.stderr}")
    return done.stdout


def last_line(text):
    """The last line of a text that has one."""
    return text.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
