"""The commands of the pages, typed as they stand. A block that can be run has `<!-- run -->` in front of it.

They are those of one user who has started `himalia up`: only the port is another one, and `<id>` is a session that is there.
"""

import os
import subprocess
from pathlib import Path

import pytest
from leftovers import end_processes, left_by
from pages import ROOT, blocks, pages
from servers import Himalia
from waiting import eventually

RUNNABLE = [(page, text) for page in pages() for run, _, text in blocks(page) if run]

# An answer of HTTP that is no success fails the block, and a stream without an end is read for a moment.
CURL = """
curl() {
  case " $* " in
    *" -N "*) command curl --fail-with-body --max-time 2 "$@" || [ $? = 28 ] ;;
    *) command curl --fail-with-body --max-time 60 "$@" ;;
  esac
}
"""


class Up(Himalia):
    """`himalia up`, as a user types it, on a free port."""

    def __init__(self, directory, kernel_python):
        self.home = directory
        self.data = directory / ".local" / "share" / "himalia" / "data"
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HIMALIA_") and name != "XDG_DATA_HOME"},
            "HOME": str(directory),
            "PATH": f"{Path(os.environ['HIMALIA_BIN']).parent}:{os.environ['PATH']}",
            "HIMALIA_LISTEN": "127.0.0.1:0",
            # Built once for all tests.
            "HIMALIA_ENV_DIR": str(Path(kernel_python).parents[2]),
        }
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["himalia", "up"], env=self.variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.announced = directory / "log"
        eventually(self.ready, self.announced.read_text, 90)
        self.token = (self.data / "token").read_text().strip()
        self._open()

    def ready(self):
        """Whether it said where it listens."""
        assert self.process.poll() is None, self.announced.read_text()
        _, found, rest = self.announced.read_text().partition("is ready at ")
        self.url = rest.split()[0] if found else ""
        return found

    def stop(self):
        """Ctrl-C."""
        try:
            super(Himalia, self).stop()
            assert self.process.returncode == 0, self.announced.read_text()
            eventually(lambda: not left_by(self.data), lambda: f"left behind: {left_by(self.data)}")
        finally:
            end_processes(self.data)


@pytest.fixture(scope="module")
def up(tmp_path_factory, kernel_python):
    """A gateway of a user with an empty home."""
    own = Up(tmp_path_factory.mktemp("home"), kernel_python)
    yield own
    own.stop()


def typed(up, text, cwd, session):
    """Types the lines of a block; what they print."""
    for shown, meant in (("http://127.0.0.1:8888/", up.url), ("<kernel id>", session), ("<id>", session)):
        text = text.replace(shown, meant)
    assert "8888" not in text and "<" not in text, text
    token = f"TOKEN=$(cat {up.data}/token)"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{CURL}\n{token}\n{text}"],
        # The port is another one than the default, so the token is not looked for where it is.
        env={**up.variables, "HIMALIA_URL": up.url, "HIMALIA_TOKEN_FILE": str(up.data / "token")},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page, text", RUNNABLE, ids=lambda value: value.name if isinstance(value, Path) else value.split("\n")[0][:60])
def test_a_block_of_commands(up, page, text, tmp_path):
    (tmp_path / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\n")
    session = up.start_session()
    before = {made["id"] for made in up.http.get("v1/sessions").json()["sessions"]}
    typed(up, text, tmp_path, session)
    for made in up.http.get("v1/sessions").json()["sessions"]:
        if made["id"] not in before - {session}:
            up.delete_session(made["id"])


def test_the_ways_to_run_code_are_run():
    assert sum(page == ROOT / "docs" / "start" / "interfaces.md" for page, _ in RUNNABLE) >= 4


def test_a_command_that_fails_is_seen(up, tmp_path):
    with pytest.raises(AssertionError):
        typed(up, "curl -s http://127.0.0.1:8888/v1/no-such-route\ntrue", tmp_path, "none")
