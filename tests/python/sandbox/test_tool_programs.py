"""Servers of tools that are programs: each runs in a sandbox of its own, and sessions call it."""

import json
import re
import signal
import sysconfig
from pathlib import Path

import pytest
from levels import CONTAINERS, LEVELS, AtLevel, place
from processes import alive
from waiting import eventually

pytestmark = pytest.mark.timeout(300)
# The environment of the tests is mounted, which fits the Python of the kernels on this machine.
AT = ["none", *(level for level in LEVELS if "ordinary" not in level and level not in CONTAINERS)]
PROGRAM = Path(__file__).parents[1] / "support" / "program_server.py"

CONFIG = """
{mounts}
[tool_servers.program]
command = {command}
env = {env}
template = "programs"
description = "A program."
call_time = 20

[tool_servers.missing]
command = ["there-is-no-such-program"]
template = "programs"

[templates.programs]
kernelspec = "python3"
{place}memory = "512MiB"
idle_timeout = "1s"
{mounted}

[templates.callers]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["program", "missing"]
tools_approval = false
"""


class World:
    """A gateway with a server that is a program."""

    def __init__(self, directory, level):
        self.level, self.hidden = level, directory / "hidden"
        self.hidden.write_text("of the host")
        packages = sysconfig.get_path("purelib")
        env = {"GREETING": "hello", "PYTHONPATH": packages}
        command, mounts, mounted = ["python3", str(PROGRAM), "--quick"], "", ""
        if level != "none":
            mounts = f'[mounts.packages]\ndirectory = "{packages}"\n[mounts.programs]\ndirectory = "{PROGRAM.parent}"\n'
            mounted = 'mounts = ["packages", "programs"]'
            command[1] = f"/mnt/programs/{PROGRAM.name}"
            env["PYTHONPATH"] = "/mnt/packages"
        text = CONFIG.format(
            mounts=mounts,
            mounted=mounted,
            command=json.dumps(command),
            env="{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items()) + " }",
            place=place(level),
        )
        options = ("--isolation", "none") if level == "none" else ()
        self.gateway = AtLevel(directory / "gateway", level, *options, extra=text)
        self.session = self.gateway.session("callers")["id"]
        self.until_ready()

    def servers(self):
        """Whether each server is ready."""
        listed = self.gateway.http.get(f"v1/sessions/{self.session}/tools/servers").json()["servers"]
        return {one["name"]: one["ready"] for one in listed}

    def until_ready(self):
        """Waits for the program."""
        eventually(lambda: self.servers()["program"], lambda: self.gateway.log.read_text()[-3000:], 60)

    def call(self, tool, **arguments):
        """The reply to a call."""
        body = {"tool": f"program.{tool}", "arguments": arguments}
        return self.gateway.http.post(f"v1/sessions/{self.session}/tools/calls", json=body, timeout=60)

    def content(self, tool, **arguments):
        """What a call returns."""
        reply = self.call(tool, **arguments)
        assert reply.status_code == 200, reply.text
        return reply.json()["content"]

    def sessions(self):
        """The sessions of programs, by the name of the server."""
        listed = self.gateway.http.get("v1/sessions").json()["sessions"]
        marked = [(one["labels"].get("himalia.tool_server"), one["id"]) for one in listed]
        return sorted((name, session) for name, session in marked if name)


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("programs"), request.param)
    yield made
    made.gateway.stop()


def test_a_program_is_called_in_its_sandbox(world):
    looked = world.content("look", path=str(world.hidden))
    assert looked["greeting"] == "hello" and looked["arguments"] == ["--quick"]
    assert looked["is_there"] == (world.level == "none"), "it sees no files of the host"
    assert looked["cwd"] == world.gateway.show(dict(world.sessions())["program"])["cwd"]
    assert len(world.content("long", size=3_000_000)["result"]) == 3_000_000
    assert world.content("noise") == {"result": "done"}
    shown = world.gateway.show(dict(world.sessions())["program"])
    assert shown["template"] == "programs" and shown["idle_timeout_s"] is None, "it is used, however idle its kernel is"


def test_a_program_that_is_not_there_is_tried_again_in_one_session(world):
    tries = lambda: len(re.findall(r"there-is-no-such-program", world.gateway.log.read_text()))  # noqa: E731
    eventually(lambda: tries() >= 2, "it is tried again", 30)
    assert [name for name, _ in world.sessions()] == ["missing", "program"] and not world.servers()["missing"]


def test_a_program_that_ends_within_a_call_is_started_again_in_its_session(world):
    before, pid = world.sessions(), world.content("look", path="/")["pid"]
    reply = world.call("end")
    assert (reply.status_code, reply.json()["code"]) == (504, "outcome_unknown"), reply.text
    assert "data are broken" not in reply.text
    world.until_ready()
    assert world.content("look", path="/")["pid"] != pid and world.sessions() == before
    assert "its data are broken" in world.gateway.log.read_text(), "its errors are in the log of the gateway"


def test_a_session_of_a_program_that_is_ended_gets_another_one(world):
    before = dict(world.sessions())["program"]
    world.gateway.end(before)
    eventually(lambda: dict(world.sessions()).get("program") not in (None, before), lambda: str(world.sessions()), 60)
    world.until_ready()
    assert world.content("noise") == {"result": "done"}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_gateway_ends_what_an_earlier_one_has_left(world, how):
    before = dict(world.sessions())
    pid = world.content("look", path="/")["pid"]
    world.gateway.process.send_signal(how)
    world.gateway.process.wait(60)
    world.gateway.process.stdout.close()
    world.gateway.start()
    world.until_ready()
    eventually(lambda: not set(before.values()) & {one for _, one in world.sessions()}, lambda: str(world.sessions()), 60)
    assert [name for name, _ in world.sessions()] == ["missing", "program"]
    if world.level == "none":
        eventually(lambda: not alive(pid), "the program has ended", 30)
    assert world.content("look", path="/")["greeting"] == "hello"
    assert world.gateway.show(world.session)["id"] == world.session, "other sessions live on"
