"""Several gateways on one Postgres database."""

import secrets
import signal
import subprocess

from servers import Himalia


class Replica(Himalia):
    """A gateway that shares a store with others."""

    def __init__(self, directory, url, name, *options, lease="5s", env=None, token=None):
        self.name = name
        settings = {"HIMALIA_STORE": url, **(env or {})}
        super().__init__(directory, "--replica", name, "--lease", lease, *options, env=settings, token=token)


def shared_key(directory):
    """The file with the key by which replicas know each other, as docs/operate/cluster.md makes it."""
    key = directory / "replicas.pem"
    options = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(key)]
    subprocess.run(["openssl", "genpkey", *options], check=True, capture_output=True)
    key.chmod(0o600)
    return key


class Replicas:
    """`count` gateways on one database, which all accept the same token.

    `port` is on the way to the database, instead of that of the server. `relays` are pairs of ports, one for each: where it listens for
    the others, and where they reach it. `kind` is the class of them.
    """

    def __init__(self, directory, postgres, count, *options, lease="5s", relay=False, env=None, port=None, relays=None, kind=Replica):
        self.postgres = postgres
        relays = relays or ([(0, None)] * count if relay else [])
        if relays:
            options = (*options, "--replica-key", str(shared_key(directory)))
        self.url = postgres.database()
        through = self.url.replace(f":{postgres.port}/", f":{port or postgres.port}/")
        token = secrets.token_hex(16)
        self.all = []
        try:
            for number in range(count):
                name = f"r{number}"
                own = []
                if relays:
                    listen, address = relays[number]
                    own += ["--replica-listen", f"127.0.0.1:{listen}"]
                    own += ["--replica-address", f"127.0.0.1:{address}"] if address else []
                self.all.append(kind(directory / name, through, name, *options, *own, lease=lease, env=env, token=token))
        except BaseException:
            self.stop()
            raise

    def __getitem__(self, number):
        return self.all[number]

    def sql(self, text):
        """Rows of a statement in their database."""
        return self.postgres.sql(self.url, text)

    def stop(self):
        """End all of them with their kernels; nothing of them may be left, in the database neither."""
        for replica in self.all:
            if replica.process.poll() is not None:
                replica.start()
        # All end before it is looked what is left, the first one last: others may have taken over what is in its directories.
        for replica in reversed(self.all):
            replica.process.send_signal(signal.SIGINT)
            replica.process.wait(60)
        for replica in self.all:
            replica.stop()
        rows = self.sql("SELECT id FROM himalia.kernels")
        assert not rows, f"rows of kernels are left: {rows}"
        ended = set(self.sql("SELECT session_dir FROM himalia.ended_sessions"))
        logs = {f"kernels/{path.name}" for replica in self.all for path in (replica.directory / "data" / "kernels").glob("*")}
        assert logs <= ended, f"logs are left: {logs - ended}"
        for table in ("log_parts", "log_segments"):
            left = set(self.sql(f"SELECT DISTINCT log FROM himalia.{table}")) - ended
            assert not left, f"{table} are left: {left}"
        live = self.sql("SELECT name FROM himalia.replicas WHERE lease_until > now()")
        assert not live, f"leases are left: {live}"
