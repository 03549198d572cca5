"""A Postgres server for tests, with a directory of its own.

The programs are those of Debian's package `postgresql-15`, or of the directory `HIMALIA_TEST_POSTGRES`. Postgres refuses to run as root, so a
test that is root starts it as the user `postgres`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from ports import free_ports
from waiting import eventually

PROGRAMS = Path(os.environ.get("HIMALIA_TEST_POSTGRES", "/usr/lib/postgresql/15/bin"))


class Postgres:
    """A server that listens on 127.0.0.1, or on `address` and accepts the clients of `network` besides. `stop` ends it and removes its data."""

    def __init__(self, address="127.0.0.1", network=None, durable=False):
        self.address, self.durable = address, durable
        # Short, since a socket is in it.
        self.directory = Path(tempfile.mkdtemp(prefix="hmpg", dir="/tmp"))
        self.data = self.directory / "data"
        self.data.mkdir()
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (self.directory, self.data):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "--username=himalia", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata", str(self.data))
        if network:
            with (self.data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {network} trust\n")
        [self.port] = free_ports(1, address)
        self.databases = 0
        self.start()

    def start(self):
        """Start it, again after `kill`, and wait until it answers."""
        settings = [
            f"listen_addresses={self.address}",
            f"port={self.port}",
            f"unix_socket_directories={self.directory}",
            "max_connections=200",
            # A test never loses power; a benchmark has to wait for the disk.
            f"fsync={'on' if self.durable else 'off'}",
        ]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._program("postgres"), "-D", str(self.data), *(part for setting in settings for part in ("-c", setting))],
                cwd="/tmp",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )

        def ready():
            assert self.process.poll() is None, (self.directory / "log").read_text()
            probe = [*self._program("pg_isready"), "--quiet", "--host", self.address, "--port", str(self.port)]
            return subprocess.run(probe, cwd="/tmp", check=False).returncode == 0

        eventually(ready, "postgres answers", 60)

    def database(self):
        """Create a database; returns its URL."""
        name = f"test{self.databases}"
        self.databases += 1
        self._run("createdb", "--host", self.address, "--port", str(self.port), "--username", "himalia", name)
        return f"postgres://himalia@{self.address}:{self.port}/{name}"

    def sql(self, url, text):
        """Run statements in a database; returns its rows, columns separated by `|`."""
        done = self._run("psql", "--quiet", "--no-psqlrc", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1", "--dbname", url, "--command", text)
        return done.stdout.splitlines()

    def kill(self):
        """End all its processes at once, as a crash does; committed transactions are there after `start`."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def stop(self):
        """End it and remove its data."""
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory)

    def _program(self, name):
        program = str(PROGRAMS / name)
        if os.geteuid() != 0:
            return [program]
        # A server does not outlive the tests.
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=SIGQUIT", program]

    def _run(self, name, *arguments):
        done = subprocess.run([*self._program(name), *arguments], cwd="/tmp", capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        return done
