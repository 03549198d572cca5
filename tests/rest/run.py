#!/usr/bin/env python3
"""Sends the examples of the REST reference to a gateway of `HIMALIA_BIN`, and compares the shapes of the answers with tests/rest/answers.json.

`tests/rest/run.py --write` writes the answers instead. `tests/rest/pages.py` makes the pages of them.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import scenario
from recorder import OPERATIONS, Recorder, differences, shape
from services import Services

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).parent / "answers.json"
PROGRAM = os.environ.get("HIMALIA_BIN", str(ROOT / "target" / "test-programs" / "himalia"))
TOKEN = "a-token-of-the-rest-reference"


def recorded(directory, services):
    """The answers of a gateway with an empty data directory."""
    (directory / "token").write_text(TOKEN)
    (directory / "token").chmod(0o600)
    (directory / "himalia.toml").write_text(services.configuration())
    command = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--data-dir", directory / "data", "--run-dir", directory / "run"]
    command += ["--token-file", directory / "token", "--config", directory / "himalia.toml"]
    with (directory / "log").open("wb") as log:
        gateway = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    try:
        found = next(filter(None, (re.search(r"is ready at (\S+)", line) for line in gateway.stdout)), None)
        assert found, (directory / "log").read_text()
        rest = Recorder(found[1], TOKEN, {services.url: "https://orders.example.org", f"127.0.0.1:{services.port}": "orders.example.org"})
        scenario.run(rest, services)
        return rest.answers
    finally:
        gateway.send_signal(signal.SIGINT)
        gateway.wait(60)
        gateway.stdout.close()


def main():
    """Returns the exit status."""
    services = Services()
    try:
        with tempfile.TemporaryDirectory(prefix="himalia-rest-") as directory:
            answers = recorded(Path(directory), services)
    finally:
        services.close()
    problems = [f"{operation} has no example" for operation in OPERATIONS.keys() - answers.keys()]
    if "--write" in sys.argv[1:]:
        FILE.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    else:
        before = json.loads(FILE.read_text())
        for operation in OPERATIONS.keys() & answers.keys():
            old, new = before.get(operation, {}), answers[operation]
            if old.get("status") != new["status"] or old.get("type") != new.get("type"):
                problems.append(f"{operation}: {new['status']} {new.get('type')} and not {old.get('status')} {old.get('type')}")
            problems += [f"{operation}{text}" for text in differences(shape(old.get("answer")), shape(new.get("answer")))]
    print("\n".join(problems), file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
