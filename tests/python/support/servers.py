"""Servers under test: a Himalia gateway, and jupyter_server to compare with. Both offer the same calls."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from leftovers import end_processes, left_by
from waiting import eventually

# In the gateway's own environment, to see that it gets into no kernel.
CANARY = "HIMALIA_TEST_CANARY"


def client_with(server, token):
    """A client of a gateway's REST API that shows this token."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False)


class Server:
    """What both have: an address, a token, a process, and REST calls."""

    url: str
    token: str
    process: subprocess.Popen

    def _open(self):
        self.http = httpx.Client(
            base_url=self.url, headers={"Authorization": f"token {self.token}"}, timeout=60, trust_env=False
        )

    def websocket_url(self, path):
        """`path` with the scheme of a WebSocket."""
        return self.url.replace("http", "ws", 1) + path.lstrip("/")

    def start_kernel(self, **body):
        """POST /api/kernels; returns the kernel's id."""
        reply = self.http.post("api/kernels", json={"name": "python3", **body})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    def delete_kernel(self, kernel_id):
        """DELETE; a kernel that is gone already is fine."""
        assert self.http.delete(f"api/kernels/{kernel_id}").status_code in (204, 404)

    def interrupt(self, kernel_id):
        """POST interrupt."""
        assert self.http.post(f"api/kernels/{kernel_id}/interrupt").status_code == 204

    def stop(self):
        """End the process, hard after a while."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Himalia(Server):
    """`himalia serve` on a free port of loopback."""

    # Most tests look at kernels as processes of this host; those in `sandbox` do not.
    isolation = ("--isolation", "none")

    def __init__(self, directory, *options, env=None, token=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.options = options
        self.mark = secrets.token_hex(8)
        self.env = env or {}
        self.token = token or secrets.token_hex(16)
        self.token_file = self.directory / "token"
        self.token_file.write_text(self.token)
        self.token_file.chmod(0o600)
        self.log = self.directory / "log"
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self):
        """Start it, on the address of an earlier start if there was one, and wait until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self.command(),
                    "serve",
                    *("--listen", self.listen),
                    *("--data-dir", str(self.directory / "data")),
                    *("--token-file", str(self.token_file)),
                    *self.isolation,
                    *self.options,
                ],
                env={**os.environ, **self._home(), CANARY: self.mark, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.banner = ""
        for line in self.process.stdout:
            self.banner += line
            found = re.search(r"is ready at (https?://([^/\s]+)/\S*)", line)
            if found:
                self.url, self.listen = found[1], found[2]
                break
        else:
            raise AssertionError(f"himalia ended with {self.process.wait()}: {self.log.read_text()[-3000:]}")
        self._open()

    def _home(self):
        """Variables for a home of its own: kernels without a sandbox start in it, and tests would find files of others there.

        Caches and installed kernelspecs are those of the user.
        """
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        kept = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
        return {"HOME": str(home)} | {name: os.environ.get(name, str(Path.home() / path)) for name, path in kept.items()}

    def command(self):
        """The program."""
        return [os.environ["HIMALIA_BIN"]]

    def start_session(self):
        """POST /v1/sessions; returns the session's id."""
        reply = self.http.post("v1/sessions", json={"template": "python3"})
        assert reply.status_code == 201, reply.text
        return reply.json()["id"]

    def delete_session(self, session):
        """DELETE; a session that has already ended is fine."""
        self.http.delete(f"v1/sessions/{session}")

    def kill(self):
        """kill -9 of the gateway alone."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """End it and its kernels; nothing of them may be left, nor of a gateway that the test killed."""
        super().stop()
        self.process.stdout.close()
        try:
            assert self.process.returncode in (0, -signal.SIGKILL), f"ended with {self.process.returncode}"
            # A process needs a moment to end after its signal.
            patience = time.monotonic() + 10
            while (found := left_by(self.directory / "data", clean=self.process.returncode == 0)) and time.monotonic() < patience:
                time.sleep(0.05)
            assert not found, "left behind: " + "; ".join(found)
        finally:
            end_processes(self.directory / "data")

    def memory_mb(self):
        """Peak resident memory of the gateway."""
        from processes import memory_mb

        return memory_mb(self.process.pid, "VmHWM")


class JupyterServer(Server):
    """jupyter_server of the tests' environment, with plain ipykernel of the kernels' environment."""

    def __init__(self, directory, kernel_python):
        directory = Path(directory)
        spec = directory / "share" / "kernels" / "python3"
        spec.mkdir(parents=True)
        (spec / "kernel.json").write_text(
            json.dumps(
                {
                    "argv": [str(kernel_python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                    "display_name": "Python 3 (ipykernel)",
                    "language": "python",
                }
            )
        )
        self.token = secrets.token_hex(16)
        runtime = directory / "runtime"
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
                    *("--ServerApp.port=0", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={directory}"),
                    f"--IdentityProvider.token={self.token}",
                    "--KernelSpecManager.ensure_native_kernel=False",
                    "--ZMQChannelsWebsocketConnection.limit_rate=False",
                    "--ServerApp.answer_yes=True",
                ],
                env={
                    **os.environ,
                    "JUPYTER_RUNTIME_DIR": str(runtime),
                    "JUPYTER_CONFIG_DIR": str(directory / "config"),
                    "JUPYTER_DATA_DIR": str(directory / "data"),
                    "JUPYTER_PATH": str(directory / "share"),
                    "JUPYTER_NO_CONFIG": "1",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        info = runtime / f"jpserver-{self.process.pid}.json"
        self.url = eventually(lambda: info.exists() and _address(info), "jupyter_server says where it listens", 60)
        self._open()
        eventually(self._answers, "jupyter_server answers", 60)

    def stop(self):
        """End it and its kernels; it asks twice on an interrupt, so it gets SIGTERM."""
        self.process.terminate()
        super().stop()

    def _answers(self):
        try:
            return self.http.get("api").status_code == 200
        except httpx.TransportError:
            return False


def _address(info):
    try:
        return json.loads(info.read_text())["url"]
    except ValueError:
        return None
