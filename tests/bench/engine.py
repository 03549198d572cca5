"""The Docker engine for the rows of containers, as `make test-docker` has it: one that answers, or one of our own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/docker/engine.sh"
# The engine's runtime that makes a level.
RUNTIMES = {"container": "runc", "gvisor": "runsc"}
IMAGE = "himalia-kernel"


class NotRun(Exception):
    """Rows that cannot be measured here, and why."""


class Engine:
    """An engine with the kernels' image, while it is entered. One that was started here is stopped at the end."""

    def __enter__(self):
        self.found = subprocess.run([SCRIPT, "status"], capture_output=True).returncode == 0
        self.host = self.output([SCRIPT, "start"]).strip()
        self.env = {**os.environ, "DOCKER_HOST": self.host, "PYTHON": sys.executable}
        try:
            self.output([ROOT / "docker/build-images.sh", "kernel"], env=self.env)
        except NotRun:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if not self.found:
            subprocess.run([SCRIPT, "stop"], check=False)

    def output(self, command, **options):
        done = subprocess.run(command, capture_output=True, text=True, **options)
        sys.stderr.write(done.stderr)
        if done.returncode:
            raise NotRun("; ".join(done.stderr.split("\n")[-4:]).strip("; ") or f"{command[0]} ended with {done.returncode}")
        return done.stdout

    def need_runtime(self, level):
        runtimes = self.output(["docker", "info", "--format", "{{json .Runtimes}}"], env=self.env)
        if f'"{RUNTIMES[level]}"' not in runtimes:
            raise NotRun(f"this engine has no runtime {RUNTIMES[level]}")
