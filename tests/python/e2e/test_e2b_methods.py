"""Every public method of E2B's Python client on this gateway: works, differs or is refused. docs/how-to/e2b.md has the table.

`make e2b-table` writes it, from what happened.
"""

import os
import re
import time
from pathlib import Path

import e2b
import pytest
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.command_handle import CommandHandle
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.sandbox_sync.git import Git
from e2b_code_interpreter import Sandbox
from e2b_gateway import pointed, sandbox, served  # noqa: F401 (fixtures)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "e2b.md"
MARK = "<!-- methods: made by `make e2b-table` -->\n"
SIZE = e2b.PtySize(rows=24, cols=80)

# Attributes, constants, and what is built without the gateway.
NO_METHODS = {
    "Sandbox": {
        *("commands", "connection_config", "default_mcp_template", "default_sandbox_timeout", "default_template"),
        *("envd_api_url", "envd_direct_url", "files", "git", "mcp_port", "pty", "sandbox_domain", "sandbox_id"),
        "traffic_access_token",
    },
    "CommandHandle": {"pid"},
}


def public(cls):
    """The names of its public methods."""
    return {name for name in dir(cls) if not name.startswith("_")} - NO_METHODS.get(cls.__name__, set())


def refused(call):
    """The reason for which a call is refused, in the client's own exception."""
    with pytest.raises(e2b.SandboxException) as raised:
        call()
    text = str(raised.value)
    assert "501" in text or "unimplemented" in text.lower() or "not offer" in text or "no end of input" in text, text
    return text


class Cases:
    """One method for each of theirs. What it returns is how it differs; `Refused` is raised with the reason."""

    def __init__(self, sandbox):
        self.sandbox, self.files, self.commands, self.pty = sandbox, sandbox.files, sandbox.commands, sandbox.pty
        self.files.write_files([{"path": "a", "data": "1"}, {"path": "b", "data": "1"}])

    def background(self, command="cat", stdin=True):
        return self.commands.run(command, background=True, stdin=stdin)

    # Sandbox

    def sandbox_create(self):
        with Sandbox.create(timeout=30, metadata={"a": "b"}, envs={"A": "b"}) as other:
            assert other.get_info().metadata == {"a": "b"}
        return "`network` closes all or nothing; `mcp`, `iam`, `volume_mounts` and pausing at the timeout are refused"

    def sandbox_connect(self):
        assert Sandbox.connect(self.sandbox.sandbox_id).run_code("1 + 1").text == "2"

    def sandbox_kill(self):
        assert Sandbox.create().kill() is True

    def sandbox_list(self):
        assert self.sandbox.sandbox_id in {one.sandbox_id for one in Sandbox.list().next_items()}

    def sandbox_get_info(self):
        assert self.sandbox.get_info().state == e2b.SandboxState.RUNNING
        return "sizes that have no limit are 0"

    def sandbox_get_metrics(self):
        assert self.sandbox.get_metrics()[0].mem_used > 0
        return "one sample, of now, if it lies within `start` and `end`; processor use is the average since the start, disk use is 0"

    def sandbox_is_running(self):
        assert self.sandbox.is_running()

    def sandbox_set_timeout(self):
        self.sandbox.set_timeout(300)

    def sandbox_fork(self):
        self.sandbox.run_code("forked = 7")
        (fork,) = self.sandbox.fork(timeout=60)
        with fork:
            assert fork.run_code("forked").text == "7"
        return "variables of the default context and files are copied; the copy shares sandbox, limits and end of its parent"

    def sandbox_pause(self):
        raise Refused(refused(self.sandbox.pause))

    def sandbox_beta_pause(self):
        raise Refused(refused(self.sandbox.beta_pause))

    def sandbox_create_snapshot(self):
        raise Refused(refused(self.sandbox.create_snapshot))

    def sandbox_list_snapshots(self):
        assert Sandbox.list_snapshots().next_items() == []
        return "there are none"

    def sandbox_delete_snapshot(self):
        assert Sandbox.delete_snapshot("none") is False
        return "there are none"

    def sandbox_update_network(self):
        raise Refused(refused(lambda: self.sandbox.update_network({"allow_out": ["example.com"]})))

    def sandbox_download_url(self):
        assert "signature=" in self.sandbox.download_url("a")

    def sandbox_upload_url(self):
        assert "signature=" in self.sandbox.upload_url("a")

    def sandbox_get_host(self):
        assert self.sandbox.get_host(80)
        return "a name below the host of the gateway, where nothing is: ports cannot be reached"

    def sandbox_get_mcp_url(self):
        assert self.sandbox.get_mcp_url()
        return "as `get_host`"

    def sandbox_get_mcp_token(self):
        with pytest.raises(e2b.SandboxException, match="one user"):
            self.sandbox.get_mcp_token()
        raise Refused("there is no MCP server in a sandbox")

    def sandbox_run_code(self):
        code = "import os; os.environ.get('A')"
        assert self.sandbox.run_code(code, envs={"A": "b"}).text == "b" and self.sandbox.run_code(code).text is None

    def sandbox_create_code_context(self):
        context = self.sandbox.create_code_context()
        self.sandbox.remove_code_context(context)

    def sandbox_list_code_contexts(self):
        assert self.sandbox.list_code_contexts()

    def sandbox_restart_code_context(self):
        self.sandbox.restart_code_context(self.sandbox.sandbox_id)

    def sandbox_remove_code_context(self):
        self.sandbox.remove_code_context(self.sandbox.create_code_context())
        return "the default context stays"

    # Files

    def filesystem_write(self):
        assert self.files.write("a", "1", metadata={"by": "me"}).metadata == {"by": "me"}

    def filesystem_write_files(self):
        self.files.write_files([{"path": "b", "data": "1"}])

    def filesystem_read(self):
        assert self.files.read("a") == "1"

    def filesystem_list(self):
        assert self.files.list(".")
        return "owner and group are always `user`"

    def filesystem_exists(self):
        assert self.files.exists("a")

    def filesystem_get_info(self):
        assert self.files.get_info("a").size == 1
        return "owner and group are always `user`"

    def filesystem_make_dir(self):
        assert self.files.make_dir("made")

    def filesystem_rename(self):
        self.files.rename("b", "c")

    def filesystem_remove(self):
        self.files.remove("c")

    def filesystem_watch_dir(self):
        handle = self.files.watch_dir(".")
        self.files.write("watched", "1")
        assert "watched" in {event.name for event in handle.get_new_events()}
        handle.stop()
        return "directories are compared twice a second, or when asked: a file that is moved is one removed and one created"

    # Commands

    def commands_run(self):
        assert self.commands.run("echo a").stdout == "a\n"
        return "`user` other than `user` is refused; a command ends with the gateway"

    def commands_list(self):
        handle = self.background()
        assert handle.pid in {one.pid for one in self.commands.list()}
        handle.kill()

    def commands_connect(self):
        handle = self.background()
        assert self.commands.connect(handle.pid).pid == handle.pid
        handle.kill()

    def commands_kill(self):
        assert self.commands.kill(self.background().pid)

    def commands_send_stdin(self):
        handle = self.background("read x; echo $x")
        self.commands.send_stdin(handle.pid, "a\n")
        assert handle.wait().stdout == "a\n"

    def commands_stream_input(self):
        handle = self.background("read x; echo $x")
        self.commands.stream_input(handle.pid, ["a", "\n"])
        assert handle.wait().stdout == "a\n"

    def commands_close_stdin(self):
        handle = self.background()
        self.commands.close_stdin(handle.pid)
        assert handle.wait().exit_code == 0

    def commandhandle_wait(self):
        assert self.background("echo a", stdin=False).wait().stdout == "a\n"

    def commandhandle_kill(self):
        assert self.background().kill()

    def commandhandle_disconnect(self):
        handle = self.background()
        handle.disconnect()
        assert self.commands.kill(handle.pid)

    def commandhandle_send_stdin(self):
        handle = self.background("read x; echo $x")
        handle.send_stdin("a\n")
        assert handle.wait().stdout == "a\n"

    def commandhandle_close_stdin(self):
        handle = self.background()
        handle.close_stdin()
        assert handle.wait().exit_code == 0

    # Terminals

    def pty_create(self):
        terminal = self.pty.create(SIZE)
        self.pty.send_stdin(terminal.pid, b"exit\n")
        assert terminal.wait().exit_code == 0

    def pty_connect(self):
        terminal = self.pty.create(SIZE)
        assert self.pty.connect(terminal.pid).pid == terminal.pid
        self.pty.kill(terminal.pid)

    def pty_kill(self):
        assert self.pty.kill(self.pty.create(SIZE).pid)

    def pty_resize(self):
        terminal = self.pty.create(SIZE)
        self.pty.resize(terminal.pid, e2b.PtySize(rows=30, cols=100))
        self.pty.kill(terminal.pid)

    def pty_send_stdin(self):
        self.pty_create()

    def pty_stream_input(self):
        terminal = self.pty.create(SIZE)
        self.pty.stream_input(terminal.pid, [b"ex", b"it\n"])
        assert terminal.wait().exit_code == 0


class Refused(Exception):
    """With the reason."""


def all_methods():
    """Class and method of each, in order."""
    for cls in (Sandbox, Filesystem, Commands, CommandHandle, Pty):
        for name in sorted(public(cls)):
            yield cls.__name__, name


def outcome(cases, cls, name):
    """How a method does here: the word, and the note."""
    try:
        note = getattr(cases, f"{cls.lower()}_{name}")()
    except Refused as reason:
        text = re.sub(r"^[\w.]*: ?|^\d+: ?", "", str(reason))
        return "refused", re.sub(r"\s+", " ", text).strip()
    return ("differs", note) if note else ("works", "")


def test_the_table_of_methods(sandbox):
    cases = Cases(sandbox)
    rows = []
    for cls, name in all_methods():
        word, note = outcome(cases, cls, name)
        shown = {"Filesystem": "files", "Commands": "commands", "CommandHandle": "CommandHandle", "Pty": "pty"}.get(cls, cls)
        rows.append(f"| `{shown}.{name}` | {word} | {note} |\n")
    table = "| method | here | note |\n|---|---|---|\n" + "".join(rows)
    before, rest = PAGE.read_text().split(MARK)
    end = re.search(r"\n(?!\|)", rest[1:])
    written = before + MARK + "\n" + table + rest[1:][end.start() + 1 :]
    if os.environ.get("HIMALIA_WRITE_E2B") == "1":
        PAGE.write_text(written)
    assert PAGE.read_text() == written, "run `make e2b-table`"


def test_every_method_has_a_case():
    named = {f"{cls.lower()}_{name}" for cls, name in all_methods()}
    cases = {name for name in vars(Cases) if "_" in name.strip("_") and not name.startswith("_")}
    assert cases == named


def build():
    """Build a template."""
    e2b.Template.build(e2b.Template().from_base_image(), "x")


@pytest.mark.parametrize("work", [e2b.Volume.list, lambda: e2b.Secret.list().next_items(), build])
def test_volumes_secrets_and_builds_of_templates_are_refused(pointed, work):
    with pytest.raises(Exception, match="not offer"):
        work()


def test_templates_are_found_by_their_names(pointed):
    assert e2b.Template.exists("base") and e2b.Template.exists("python3")
    assert not e2b.Template.exists("nothing")


def test_git_runs_as_a_command(sandbox):
    sandbox.git.init("repo")
    sandbox.git.configure_user("Ada", "ada@example.org", scope="local", path="repo")
    sandbox.files.write("repo/a", str(time.time()))
    sandbox.git.add("repo", ["a"])
    assert sandbox.git.status("repo").file_status and isinstance(sandbox.git, Git)
