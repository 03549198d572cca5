"""A data set of 250 MB, analysed in stages in one live session by three clients at once.

A script over REST loads, cleans, aggregates and plots. An agent over MCP looks at the variables, draws, errs and corrects
itself. A Jupyter client is attached to the same kernel all the time, runs cells too, and sees what the others do. Then the
gateway is killed, and all three continue with the variables that were there. Every result is compared with what was computed
from the data before it was written to the file (`support/trips.py`).
"""

import base64
import json
import subprocess
from pathlib import Path

import pytest
from agents import agent, kinds, run, text, whole
from onlooker import Onlooker
from servers import Himalia

ROWS, SEED = 4_500_000, 20_260_131
SUPPORT = Path(__file__).parents[1] / "support"
# Characters that one call may return, of which each client's model or user has to read every one.
BOUND = 11_000
MEMORY_MB = 2000

LOAD = """
import pandas as pd
parts, read = [], 0
for part in pd.read_csv("data/trips.csv", parse_dates=["pickup"], chunksize=500_000):
    parts.append(part)
    read += len(part)
    print(f"\\r{read:,} rows", end="", flush=True)
trips = pd.concat(parts, ignore_index=True)
del parts, part
print()
trips
"""
CLEAN = """
missing = int(trips["fare"].isna().sum())
clean = trips[trips["fare"].notna() & (trips["distance_km"] > 0) & (trips["fare"] < 1000)].copy()
del trips
clean["zone"] = clean["zone"].astype("category")
print(missing, "without a fare;", len(clean), "kept")
"""
AGGREGATE = """
by_zone = clean.groupby("zone", observed=True)["fare"].agg(trips="size", fare="mean")
by_hour = clean.groupby(clean["pickup"].dt.hour)["fare"].mean()
by_zone.to_csv("by_zone.csv")
by_zone
"""
PLOT = """
import matplotlib.pyplot as plt
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
by_hour.plot(ax=left, title="mean fare by hour")
by_zone["trips"].plot.bar(ax=right, title="trips by zone")
fig.savefig("fares.png")
plt.show()
"""


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway that puts kernels into the sandbox that this machine has."""
    own = InSandbox(tmp_path / "gateway")
    yield own
    own.stop()


class InSandbox(Himalia):
    """At level `namespaces` where that works, like a gateway that is started without options."""

    isolation = ()


class Script:
    """A caller of the native API that notes how much it had to read."""

    def __init__(self, gateway, session):
        self.gateway, self.session, self.characters = gateway, session, 0

    def run(self, code, **more):
        """Run code; its result, which is never longer than the bound."""
        body = {"code": code, "expect_incarnation": 1, **more}
        reply = self.gateway.http.post(f"v1/sessions/{self.session}/executions", json=body, timeout=120)
        assert reply.status_code == 200, reply.text
        assert len(reply.text) <= BOUND, f"{len(reply.text)} characters for {code!r}"
        self.characters += len(reply.text)
        return reply.json()

    def stage(self, code):
        """Run code that must succeed."""
        result = self.run(code)
        assert result["status"] == "ok", result
        return result

    def file(self, path):
        """A file of the session."""
        reply = self.gateway.http.get(f"v1/sessions/{self.session}/files/{path}", timeout=120)
        assert reply.status_code == 200, reply.text
        return reply.content

    def send(self, local, path):
        """Upload a file as a stream."""
        with local.open("rb") as content:
            reply = self.gateway.http.put(
                f"v1/sessions/{self.session}/files/{path}", content=iter(lambda: content.read(1 << 20), b""), timeout=120
            )
        assert reply.status_code == 201 and reply.json()["bytes"] == local.stat().st_size, reply.text


class Agent:
    """A caller of the MCP tools that notes how much its model had to read."""

    def __init__(self, client, session):
        self.client, self.session, self.characters = client, session, 0

    async def call(self, tool, **arguments):
        """A tool's result, never longer than the bound."""
        result = await self.client.call_tool(tool, {"session": self.session, **arguments})
        for part in (text(result), json.dumps(whole(result))):
            assert len(part) <= BOUND, f"{len(part)} characters for {tool} {arguments}"
        self.characters += len(text(result))
        return result

    async def execute(self, code, **more):
        """Run code in the process in which the script ran its own."""
        return await self.call("execute", code=code, expect_incarnation=1, **more)

    async def rows(self, name, **more):
        """A page of a table."""
        result = await self.call("inspect_variables", name=name, **more)
        assert not result.is_error, text(result)
        return whole(result)["page"]


def value(result):
    """The number that was a cell's last expression."""
    return float(result["outputs"][-1]["data"]["text/plain"])


def same(seen, result, picture=None):
    """What the Jupyter client saw of a cell is what the result says of it."""
    assert "\r" in seen.streams.get("stdout", "") or "".join(seen.streams.values()) == result["text"]
    assert len(seen.data) == len(result["outputs"])
    for data, output in zip(seen.data, result["outputs"]):
        assert set(data) == set(output["data"])
    if result["error"]:
        assert seen.errors == [(result["error"]["name"], result["error"]["value"])]
    else:
        assert seen.errors == []
    if picture:
        (shown,) = [data["image/png"] for data in seen.data if "image/png" in data]
        assert base64.b64decode(shown) == picture


def load_clean_aggregate_plot(script, jupyter, facts):
    """The stages that the script runs."""
    loaded = script.stage(LOAD)
    assert loaded["text"] == f"{ROWS:,} rows\n", "a progress line is its last state"
    assert f"[{ROWS} rows x 7 columns]" in loaded["outputs"][0]["data"]["text/plain"]
    assert loaded["variables"]["added"] == ["pd", "read", "trips"], loaded["variables"]
    seen = jupyter.cell(LOAD)
    assert seen.streams["stdout"].count("\r") == ROWS // 500_000
    same(seen, loaded)

    # The one who is attached looks at the same data, and what it makes is there for the others.
    assert jupyter.run("rows_seen_in_jupyter = len(trips); rows_seen_in_jupyter").texts() == [str(ROWS)]

    cleaned = script.stage(CLEAN)
    assert cleaned["text"] == f"{facts['missing']} without a fare; {facts['kept']} kept\n"
    assert cleaned["variables"]["removed"] == ["trips"] and "clean" in cleaned["variables"]["added"]
    same(jupyter.cell(CLEAN), cleaned)

    aggregated = script.stage(AGGREGATE)
    assert aggregated["files"]["written"] == ["by_zone.csv"]
    table = [line.split(",") for line in script.file("by_zone.csv").decode().splitlines()[1:]]
    assert {name: [int(n), pytest.approx(float(fare))] for name, n, fare in table} == facts["zones"]
    same(jupyter.cell(AGGREGATE), aggregated)
    assert script.stage("rows_seen_in_jupyter")["outputs"][0]["data"]["text/plain"] == str(ROWS)

    plotted = script.stage(PLOT)
    assert plotted["files"]["written"] == ["fares.png"] and script.file("fares.png").startswith(b"\x89PNG")
    image = next(output["data"]["image/png"] for output in plotted["outputs"] if "image/png" in output["data"])
    assert image["width"] > 600 and image["height"] > 200
    picture = script.gateway.http.get(f"v1/artifacts/{image['artifact'].removeprefix('sha256:')}").content
    assert picture.startswith(b"\x89PNG") and len(picture) == image["bytes"]
    same(jupyter.cell(PLOT), plotted, picture)


async def look_draw_err_and_correct(its, jupyter, facts):
    """What the agent does."""
    listed = await its.call("inspect_variables")
    rows = {row["name"]: row for row in whole(listed)["variables"]}
    assert rows["clean"]["shape"] == [facts["kept"], 7] and rows["by_zone"]["shape"] == [len(facts["zones"]), 2]
    assert "trips" not in rows

    page = await its.rows("clean", sort="fare", descending=True, limit=3)
    fare = [column["name"] for column in page["columns"]].index("fare")
    assert [row[fare] for row in page["rows"]] == facts["highest"] and page["total"] == facts["kept"]
    assert (await its.rows("clean", offset=facts["kept"] - 2, limit=5))["rows"][2:] == []
    wanted = [
        {"column": "zone", "op": "==", "value": "market-00"},
        {"column": "distance_km", "op": ">", "value": 30},
    ]
    assert (await its.rows("clean", filter=wanted, limit=2))["matched"] == facts["long_market_trips"]

    draw = "by_zone['fare'].plot(kind='barh', figsize=(5, 6)); plt.show()"
    drawn = await its.execute(draw, image_bytes=200_000)
    assert kinds(drawn) == ["text", "image"], text(drawn)
    picture = base64.b64decode(drawn.content[1].data)
    assert picture.startswith(b"\x89PNG") and len(picture) <= 200_000
    same(jupyter.cell(draw), whole(drawn), picture)
    small = await its.call("execute", code=PLOT, image_bytes=1000)
    assert kinds(small) == ["text", "resource_link"], "beyond its budget a picture is a link"
    assert small.content[1].size > 1000

    mistake = "hourly = clean.groupby(clean['pickup'].dt.hour)\nhighest = clean['fair'].max()"
    wrong = await its.execute(mistake)
    assert wrong.is_error and "[failing line 2: highest = clean['fair'].max()]" in text(wrong), text(wrong)
    hint = whole(wrong)["error"]["hint"]
    assert "did you mean 'fare'" in hint and hint in text(wrong)
    same(jupyter.cell(mistake), whole(wrong))
    right = await its.execute("hourly['fare'].mean().round(4).tolist()")
    hours = json.loads(whole(right)["outputs"][0]["data"]["text/plain"])
    assert hours == pytest.approx(facts["hours"], abs=1e-4)

    flood = "for at in range(200_000): print('trip', at)"
    flooded = whole(await its.execute(flood))
    assert flooded["truncated"]["bytes_total"] > 2_000_000 and flooded["truncated"]["bytes_shown"] <= 8_000
    seen = jupyter.cell(flood).streams["stdout"]
    assert seen == "".join(f"trip {at}\n" for at in range(200_000)), "the Jupyter client gets all of it"


async def after_the_kill(its, jupyter, facts):
    """The agent finds what was there."""
    again = await its.execute("len(clean), round(float(clean['fare'].mean()), 6), len(by_hour)")
    assert not again.is_error
    shown = whole(again)["outputs"][0]["data"]["text/plain"]
    assert json.loads(f"[{shown.strip('()')}]") == [facts["kept"], pytest.approx(facts["mean_fare"], abs=1e-6), 24]
    assert (await its.rows("clean", limit=1))["total"] == facts["kept"]
    assert jupyter.cell("len(clean), round(float(clean['fare'].mean()), 6), len(by_hour)").texts() == [shown]


def start(gateway, directory):
    """The session; its files are in `directory` where it has no sandbox."""
    made = gateway.http.put("v1/sessions/trips", json={"template": "python3"}).json()
    if made["isolation"] == "none":
        assert gateway.http.delete("v1/sessions/trips").status_code == 204
        (directory / "work").mkdir()
        made = gateway.http.put("v1/sessions/trips", json={"cwd": str(directory / "work")}).json()
    return made["id"]


@pytest.mark.timeout(300)
def test_a_script_an_agent_and_a_jupyter_client_share_one_analysis(gateway, kernel_python, tmp_path):
    file = tmp_path / "trips.csv"
    command = [kernel_python, SUPPORT / "trips.py", file, str(ROWS), str(SEED)]
    facts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    assert facts["rows"] == ROWS and file.stat().st_size > 240_000_000

    session = start(gateway, tmp_path)
    script, jupyter = Script(gateway, session), Onlooker(gateway, session)
    try:
        script.send(file, "data/trips.csv")
        load_clean_aggregate_plot(script, jupyter, facts)
        assert value(script.stage("float(clean['fare'].mean())")) == pytest.approx(facts["mean_fare"])

        read_by_agent = 0

        async def by_agent(work):
            nonlocal read_by_agent
            async with agent(gateway) as client:
                its = Agent(client, "trips")
                await work(its, jupyter, facts)
                read_by_agent += its.characters

        run(by_agent, look_draw_err_and_correct)
        assert jupyter.run("list(hourly.groups)[:2]").texts() == ["[0, 1]"], "what the agent made"

        gateway.kill()
        jupyter.cut()
        gateway.start()
        jupyter.attach()
        run(by_agent, after_the_kill)
        assert value(script.stage("float(by_hour.iloc[3])")) == pytest.approx(facts["hours"][3])
        assert jupyter.run("rows_seen_in_jupyter").texts() == [str(ROWS)]

        # One kernel ran each cell once; the history is the same for all of them.
        history = gateway.http.get("v1/sessions/trips/history?limit=1000").json()["history"]
        assert [entry["code"] for entry in history] == [cell.code for cell in jupyter.cells()]
        assert [entry["execution_count"] for entry in history] == list(range(1, len(history) + 1))
        assert {entry["incarnation"] for entry in history} == {1}

        assert script.characters < 40_000 and read_by_agent < 40_000, (script.characters, read_by_agent)
        assert 20 * max(script.characters, read_by_agent) < jupyter.characters()
        peak = script.stage("import resource; resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024")
        # The file is in memory, too, where the session's disk is.
        assert value(peak) + gateway.memory_mb() + file.stat().st_size / 1e6 < MEMORY_MB
    finally:
        jupyter.close()
