"""A gateway process of this demo's own: started on a free port, asked over REST, stopped at the end."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

# Variables that say where a gateway is, or would give this one another token or configuration.
ELSEWHERE = ("HIMALIA_URL", "HIMALIA_TOKEN", "HIMALIA_TOKEN_FILE", "HIMALIA_CONFIG", "HIMALIA_LISTEN", "HIMALIA_DATA_DIR")


class GatewayError(Exception):
    """The gateway did not start, or answered with an error."""


class Gateway:
    """`himalia up` on loopback with its own data directory and a token that it made itself.

    A context manager; leaving it stops the gateway and its kernels and removes the data.
    """

    def __init__(self, program, configured=None):
        """`configured` gets a directory and returns the text of a configuration, whose files may be there."""
        self.program = Path(program).resolve()
        if not self.program.is_file():
            raise GatewayError(f"{self.program} is not there; `make build` builds it")
        self.url = None
        self.token = None
        self.process = None
        self._data = tempfile.TemporaryDirectory(prefix="himalia-demo-")
        self._options = []
        if configured:
            file = Path(self._data.name) / "himalia.toml"
            file.write_text(configured(Path(self._data.name)))
            self._options = ["--config", file]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self._data.cleanup()

    def start(self):
        """Start it, on the same address as before if it ran before, and wait until it is ready. Returns seconds."""
        started = time.monotonic()
        listen = self.url.split("//")[1].rstrip("/") if self.url else "127.0.0.1:0"
        data = Path(self._data.name)
        with (data / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program, "up", "--listen", listen, "--data-dir", data / "state", *self._options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Addresses and tokens that are set for another gateway are not this one's.
                env={name: value for name, value in os.environ.items() if name not in ELSEWHERE},
                # Ctrl-C in the terminal is for the demo, which then stops the gateway itself.
                start_new_session=True,
            )
        for line in self.process.stdout:
            found = re.search(r"is ready at (http://\S+)", line)
            if found:
                self.url = found[1]
                break
        else:
            code = self.process.wait()
            raise GatewayError(f"the gateway ended with status {code}:\n{(data / 'log').read_text()[-2000:]}")
        self.token = (data / "state" / "token").read_text().strip()
        return time.monotonic() - started

    def kill(self):
        """`kill -9`: the gateway gets no chance to do anything."""
        self.process.kill()
        self._reap()

    def stop(self):
        """Ctrl-C: the gateway ends its kernels and itself."""
        if self.process is None:
            return
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGINT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._reap()

    def _reap(self):
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def request(self, method, path, body=None):
        """One REST call; returns the decoded JSON or None."""
        text = self._ask(method, path, None if body is None else json.dumps(body).encode())
        return json.loads(text) if text else None

    def download(self, path):
        """The bytes of an artifact."""
        return self._ask("GET", path, None)

    def _ask(self, method, path, body):
        request = urllib.request.Request(
            self.url + path.lstrip("/"),
            method=method,
            data=body,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            raise GatewayError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from None

    def start_kernel(self, name="python3"):
        """Start a kernel; returns its id."""
        return self.request("POST", "/api/kernels", {"name": name})["id"]

    def events(self, session, after):
        """The session's log as server-sent events, after a position: yields (position, event).

        This is the resumable form of a kernel's output: a client that names the last position that it has seen gets
        everything after it, once. Ends when the connection does.
        """
        request = urllib.request.Request(
            f"{self.url}v1/sessions/{session}/events",
            headers={"Authorization": f"Bearer {self.token}", "Last-Event-ID": str(after)},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            position, data = None, []
            for raw in response:
                line = raw.decode().rstrip("\n")
                if line.startswith("id:"):
                    position = int(line[3:])
                elif line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
                elif not line and data:
                    if position is not None:
                        yield position, json.loads("\n".join(data))
                    position, data = None, []
