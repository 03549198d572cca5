"""A server that speaks S3, for tests: `s3s-fs`, over a directory of its own.

`make` builds the program; `HIMALIA_TEST_S3` names another.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from ports import free_ports
from waiting import eventually

PROGRAM = os.environ.get("HIMALIA_TEST_S3", "s3s-fs")
KEY, SECRET = "himalia", "the-secret-of-the-tests"


class S3:
    """A server on 127.0.0.1, or another address, with one bucket, `logs`. `stop` ends it and removes its objects."""

    url = "s3://logs/himalia"

    def __init__(self, address="127.0.0.1"):
        self.address = address
        self.directory = Path(tempfile.mkdtemp(prefix="hms3"))
        self.bucket = self.directory / "logs"
        self.bucket.mkdir()
        [self.port] = free_ports(1, address)
        self.start()

    @property
    def environment(self):
        """What a gateway needs to reach it."""
        return {
            "AWS_ENDPOINT": f"http://{self.address}:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def start(self):
        """Start it, again after `kill`, and wait until it listens."""
        if not shutil.which(PROGRAM):
            raise FileNotFoundError(f"{PROGRAM}: `make s3` builds it")
        options = ["--host", self.address, "--port", str(self.port), "--access-key", KEY, "--secret-key", SECRET]
        self.process = subprocess.Popen(
            [PROGRAM, *options, str(self.directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

        def listens():
            assert self.process.poll() is None, f"{PROGRAM} ended with {self.process.returncode}"
            with socket.socket() as probe:
                return probe.connect_ex((self.address, self.port)) == 0

        eventually(listens, "the S3 server to listen")

    def objects(self):
        """Names of all objects of the bucket."""
        return sorted(str(path.relative_to(self.bucket)) for path in self.bucket.rglob("*") if path.is_file())

    def kill(self):
        """End it at once; its objects stay."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
