"""Code in a session runs skills: each in a session of its own, below it, with no more rights than both have."""

import json

import pytest
from events import follow
from levels import LEVELS, AtLevel, place
from servers import client_with
from upstream import Orders
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
AT = [level for level in LEVELS if level in ("namespaces", "container")]
TOKENS = {"acme": "token-of-ada-0123456789", "other": "token-of-eve-0123456789"}

CONFIG = """
[tool_servers.orders]
url = "{orders}"
description = "Orders of the shop."

[tenants.acme]
tokens = {{ ada = "{acme}" }}
[tenants.other]
tokens = {{ eve = "{other}" }}

[templates.agent]
kernelspec = "python3"
{place}memory = "512MiB"
skills = true
tools = ["orders"]
tools_write = ["orders.create_*"]
tool_calls_per_execution = 12
tree_depth = 2

[templates.reader]
kernelspec = "python3"
{place}memory = "512MiB"
skills = true
tools = ["orders.list_*"]
tools_approval = false

[templates.bare]
kernelspec = "python3"
{place}memory = "512MiB"
"""

ADD = "def main(month, limit=3):\n    if month == 'bad':\n        raise ValueError('no such month')\n    return {'total': limit} if month != 'wrong' else {'total': 'x'}\n"
ADDS = {
    "inputs": {
        "type": "object",
        "properties": {"month": {"type": "string"}, "limit": {"type": "integer", "default": 3}},
        "required": ["month"],
        "additionalProperties": False,
    },
    "outputs": {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]},
}
# What a skill may do with tools.
TRY = """
import himalia

async def main(tool, count=1):
    done = []
    for n in range(count):
        try:
            await himalia.call(tool, **({"customer": "ada", "amount": n} if "create" in tool else {"limit": 1}))
            done.append("done")
        except himalia.ToolError as error:
            done.append(error.code)
    return done
"""
ANY = {"inputs": {"type": "object"}, "outputs": True}
DEEP = "import himalia\n\nasync def main(rest):\n    return await himalia.skills.run('deep-{}', rest=rest) if {} else 'bottom'\n"


class World:
    """A server of tools, and a gateway with it that keeps logs."""

    def __init__(self, directory, level):
        self.orders = Orders(directory)
        text = CONFIG.format(orders=self.orders.url, place=place(level), **TOKENS)
        self.gateway = AtLevel(directory / "gateway", level, extra=text, keeps=True)
        self.publish("add-up", ADD, ADDS)
        self.publish("try-tool", TRY, {**ANY, "tools": ["orders"]})
        self.publish("no-tools", TRY, ANY)
        self.publish("writer", TRY, {**ANY, "tools": ["orders"], "template": "agent"})
        self.publish("slow", "import asyncio\n\nasync def main(seconds):\n    await asyncio.sleep(seconds)\n    return seconds\n", ANY)

    @property
    def http(self):
        return self.gateway.http

    def publish(self, name, main, more, version="1.0.0", http=None):
        """Publishes a skill of code."""
        manifest = {"name": name, "version": version, "kind": "code", "description": f"About {name}.", **more}
        body = {"manifest": manifest, "files": {"main.py": {"text": main}}}
        reply = (http or self.http).post("v1/skills", json=body)
        assert reply.status_code == 201, reply.text

    def session(self, template, http=None):
        """The id of a new session."""
        reply = (http or self.http).post("v1/sessions", json={"template": template}, timeout=120)
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    def begin(self, session, code):
        """The id of an execution."""
        return self.http.post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": 0}).json()["id"]

    def ended(self, execution):
        """The result of an execution that has ended."""

        def result():
            found = self.http.get(f"v1/executions/{execution}").json()
            return found if found["status"] not in ("queued", "running") else None

        return eventually(result, "the execution has ended", 120)

    def run(self, session, code):
        """The result of an execution."""
        return self.ended(self.begin(session, code))

    def says(self, session, code):
        """What code prints."""
        result = self.run(session, code)
        assert result["error"] is None, result["error"]
        return result["text"].strip()

    def below(self, session):
        """Sessions whose code this one's has started, the ended ones too."""
        listed = [one for ended in (False, True) for one in self.http.get("v1/sessions", params={"ended": ended}).json()["sessions"]]
        by_id = {one["id"]: one for one in listed}
        return [one for one in by_id.values() if (one["tree"] or {}).get("parent") == session]

    def close(self):
        """Ends all."""
        self.gateway.stop()
        self.orders.close()


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("skills"), request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world):
    """A session that may run skills and call tools."""
    return world.session("agent")


def test_a_skill_is_called_like_a_function(world, session):
    code = """
import inspect, himalia
print([one["name"] for one in await himalia.skills.list()])
print("add_up" in dir(himalia.skills), himalia.skills.add_up.__doc__, inspect.signature(himalia.skills.add_up))
print(await himalia.skills.add_up(month="2026-10", limit=7), himalia.sync.skills.add_up(month="2026-10"))
print(await himalia.skills.run("add-up", {"month": "x"}, version="1.0.0"), (await himalia.skills.show("add-up"))["outputs"]["required"])
"""
    result = world.run(session, code)
    assert result["error"] is None, result["error"]
    lines = result["text"].splitlines()
    assert lines[0] == "['add-up', 'no-tools', 'slow', 'try-tool', 'writer']", lines
    assert lines[1] == "True About add-up. (*, month: str, limit: int = 3)", lines
    assert lines[2:] == ["{'total': 7} {'total': 3}", "{'total': 3} ['total']"], lines
    below = world.below(session)
    assert len(below) == 3 and {one["labels"]["himalia.skill"] for one in below} == {"add-up 1.0.0"}, below
    tree = below[0]["tree"]
    assert (tree["root"], tree["depth"], tree["root_execution"]) == (session, 1, result["id"]), tree
    assert all(one["tools"] == [] for one in below)
    # It is a call for the session: in its log, and counted.
    assert (result["usage"]["tool_calls"], result["usage"]["tool_calls_failed"]) == (3, 0)
    calls = follow(world.gateway, session, 0, lambda event: event["event"] == "tool_call" and event["detail"].get("outcome") == "done")
    calls = [one["detail"] for one in calls if one["event"] == "tool_call"]
    assert calls[0]["tool"] == "skill:add-up@1.0.0" and json.loads(calls[0]["arguments"])["limit"] == 7, calls
    assert json.loads(calls[-1]["reply"]) == {"total": 7}, calls


def test_what_went_wrong_is_an_exception(world, session):
    code = """
import himalia
for name, inputs in [("add-up", {"month": "bad"}), ("add-up", {"month": "wrong"}), ("add-up", {"mont": 1}), ("ad-up", {})]:
    try:
        await himalia.skills.run(name, **inputs)
    except himalia.ToolError as error:
        print(type(error).__name__, error.code, [(one["path"], one["rule"]) for one in error.violations], "|", str(error).replace(chr(10), " "))
"""
    lines = world.says(session, code).splitlines()
    assert lines[0].startswith("SkillFailed skill_failed [] | add-up 1.0.0 raised ValueError: no such month"), lines
    assert "raise ValueError('no such month')" in lines[0], lines
    assert lines[1].startswith("SkillFailed skill_failed [('/total', 'type')]"), lines
    assert lines[2].startswith("InvalidArguments invalid_arguments [") and "nothing was started" in lines[2], lines
    assert lines[3].startswith("UnknownSkill unknown_skill [] |") and "add-up, no-tools" in lines[3], lines


def tried(world, session, skill, tool):
    """What a call of a tool by a skill comes to."""
    return world.says(session, f"import himalia\nprint(await himalia.skills.run({skill!r}, tool={tool!r}))")


def test_a_skill_has_no_more_rights_than_its_caller_and_its_manifest_have(world, session):
    reader = world.session("reader")
    before = world.orders.created()
    for caller, skill, tool, outcome in [
        (session, "try-tool", "orders.list_orders", "done"),
        # It declares none.
        (session, "no-tools", "orders.list_orders", "unknown_server"),
        (reader, "try-tool", "orders.list_orders", "done"),
        # Its caller has none that writes, whatever the template of the skill says.
        (reader, "try-tool", "orders.create_order", "unknown_tool"),
        (reader, "writer", "orders.create_order", "unknown_tool"),
    ]:
        assert tried(world, caller, skill, tool) == f"['{outcome}']", (caller == reader, skill, tool)
    assert world.orders.created() == before
    assert tried(world, session, "writer", "orders.create_order") == "['done']"
    assert world.orders.created() == before + 1
    (below,) = [one for one in world.below(reader) if one["labels"]["himalia.skill"] == "writer 1.0.0"]
    assert below["tools"] == ["orders.list_*"] and below["template"] == "agent", below
    # Nor has a run of a client more than its template.
    run = world.http.post("v1/skills/no-tools/runs", json={"inputs": {"tool": "orders.list_orders"}, "template": "agent"}, timeout=120).json()
    assert run["outputs"] == ["unknown_server"], run


def test_sessions_without_the_right_run_no_skills(world, session):
    bare = world.session("bare")
    code = "import himalia\ntry: await himalia.skills.list()\nexcept himalia.ToolError as error: print(error)"
    assert "HIMALIA_API is not set" in world.says(bare, code)
    # A skill that declares none has none either.
    world.publish("asks", "import himalia\n\nasync def main():\n    try:\n        return len(await himalia.skills.list())\n    except himalia.ToolDenied as error:\n        return error.code\n", ANY)
    assert world.says(session, "import himalia\nprint(await himalia.skills.asks())") == "tool_denied"


def test_calls_of_the_whole_tree_are_limited(world, session):
    code = "import himalia\nfor n in range(2):\n    print(await himalia.skills.try_tool(tool='orders.list_orders', count=8))"
    lines = world.says(session, code).splitlines()
    assert lines[0] == str(["done"] * 8), lines
    # A run is a call too: 2 + 10 are 12. The first one may come before the kernel has said that it is busy, and counts by itself.
    done = lines[1].count("done")
    assert done in (2, 3) and lines[1] == str(["done"] * done + ["tool_limit"] * (8 - done)), lines
    assert world.says(session, code.replace("range(2)", "range(1)")) == lines[0], "the next execution begins anew"


def test_skills_run_the_skills_that_they_declare(world, session):
    def deep(n, **more):
        manifest = {**ANY, **more}
        body = {
            "manifest": {"name": f"deep-{n}", "version": "1.0.0", "kind": "code", "description": "Deep.", **manifest},
            "files": {"main.py": {"text": DEEP.format(n + 1, n < 3)}},
        }
        return world.http.post("v1/skills", json=body)

    refused = deep(1, skills={"deep-2": "^1"})
    assert (refused.status_code, refused.json()["field"]) == (400, "skills"), refused.text
    assert deep(3).status_code == 201
    assert deep(2, skills={"deep-3": "^1"}).status_code == 201
    assert deep(1, skills={"deep-2": "^2"}).status_code == 400
    assert deep(1, skills={"deep-2": "^1"}).status_code == 201
    assert world.says(session, "import himalia\nprint(await himalia.skills.deep_2(rest=1))") == "bottom"
    # One more is deeper than the template permits.
    code = "import himalia\ntry: await himalia.skills.deep_1(rest=1)\nexcept himalia.SkillFailed as error: print(error.error_name, 'tree_depth' in error.traceback)"
    assert world.says(session, code) == "SkillFailed True"
    # By a client the run is at the top.
    run = world.http.post("v1/skills/deep-1/runs", json={"inputs": {"rest": 1}, "template": "agent"}, timeout=120).json()
    assert (run["status"], run["outputs"]) == ("succeeded", "bottom"), run
    plain = world.http.post("v1/skills/deep-1/runs", json={"inputs": {"rest": 1}, "template": "bare"})
    assert (plain.status_code, plain.json()["field"]) == (400, "template"), plain.text
    # And what it does not declare it has not.
    world.publish("other", "import himalia\n\nasync def main():\n    return await himalia.skills.slow(seconds=0)\n", {**ANY, "skills": {"deep-3": "*"}})
    code = "import himalia\ntry: await himalia.skills.other()\nexcept himalia.SkillFailed as error: print(error.error_name)"
    assert world.says(session, code) == "UnknownSkill"


def test_a_run_outlives_a_killed_gateway_and_its_caller_gets_the_result(world, session):
    execution = world.begin(session, "import himalia\nprint(await himalia.skills.slow(seconds=6))")
    eventually(lambda: [one for one in world.below(session) if one["state"] == "busy"], "the run is at work", 60)
    runs = len(world.below(session))
    world.gateway.kill()
    world.gateway.start()
    result = world.ended(execution)
    assert result["error"] is None and result["text"].strip() == "6", result
    assert len(world.below(session)) == runs, "it ran once"


def test_a_run_ends_with_what_waits_for_it(world, session):
    execution = world.begin(session, "import himalia\nawait himalia.skills.slow(seconds=250)")
    (run,) = eventually(lambda: [one for one in world.below(session) if one["state"] == "busy"], "the run is at work", 60)
    assert world.http.post(f"v1/executions/{execution}/interrupt").status_code in (200, 202, 204)
    assert world.ended(execution)["status"] == "interrupted"
    shown = lambda: world.http.get(f"v1/sessions/{run['id']}").json()  # noqa: E731
    eventually(lambda: shown()["ended"], lambda: str(shown()), 60)
    caller = world.session("agent")
    world.begin(caller, "import himalia\nawait himalia.skills.slow(seconds=250)")
    (run,) = eventually(lambda: [one for one in world.below(caller) if one["state"] == "busy"], "the run is at work", 60)
    assert world.http.delete(f"v1/sessions/{caller}").status_code == 204
    eventually(lambda: shown()["ended"], lambda: str(shown()), 60)


def test_a_tenant_runs_its_own_skills_alone(world):
    others = {tenant: client_with(world.gateway, token) for tenant, token in TOKENS.items()}
    world.publish("private", ADD, ADDS, http=others["acme"])
    seen = {}
    for tenant, http in others.items():
        made = world.session("agent", http)
        code = "import himalia\nprint([one['name'] for one in await himalia.skills.list()])"
        reply = http.post(f"v1/sessions/{made}/executions", json={"code": code}, params={"wait_s": 60}).json()
        seen[tenant] = reply["text"].strip()
        code = "import himalia\nprint(await himalia.skills.private(month='x'))"
        reply = http.post(f"v1/sessions/{made}/executions", json={"code": code}, params={"wait_s": 60}).json()
        seen[tenant] += (reply["error"] or {}).get("name", reply["text"].strip())
        assert http.delete(f"v1/sessions/{made}").status_code == 204
    assert seen == {"acme": "['private']{'total': 3}", "other": "[]UnknownSkill"}


def test_a_program_runs_a_skill(world, session):
    asked = """$HIMALIA_API/v1/skills/add-up/runs '{"inputs": {"month": "x"}, "wait_s": 50}'"""
    fetch = "python3 -c 'import sys, urllib.request as u; print(u.urlopen(u.Request(sys.argv[1], sys.argv[2].encode())).read().decode())'"
    command = f"{fetch} {asked}"
    reply = world.http.post(f"v1/sessions/{session}/executions", json={"code": command, "language": "bash"}, params={"wait_s": 60}).json()
    answer = json.loads(reply["text"])
    assert (answer["status"], answer["outputs"]) == ("succeeded", {"total": 3}), reply
