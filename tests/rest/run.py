#!/usr/bin/env python3
"""Sends the examples of the REST reference to a gateway of `HIMALIA_BIN`, and compares the shapes of the answers with tests/rest/answers.json.

`tests/rest/run.py --write` writes the answers instead. `tests/rest/pages.py` makes the pages of them.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python" / "support"))
import scenario  # noqa: E402
from recorder import OPERATIONS, Recorder, differences, shape  # noqa: E402
from servers import Himalia  # noqa: E402
from services import Services  # noqa: E402

FILE = Path(__file__).parent / "answers.json"
TOKEN = "a-token-of-the-rest-reference"


class Gateway(Himalia):
    """A gateway at its default isolation level."""

    isolation = ()


def recorded(directory, services):
    """The answers of a gateway with an empty data directory."""
    (directory / "himalia.toml").write_text(services.configuration())
    gateway = Gateway(directory, "--config", directory / "himalia.toml", token=TOKEN)
    try:
        rest = Recorder(gateway.url, TOKEN, {services.url: "https://orders.example.org", f"127.0.0.1:{services.port}": "orders.example.org"})
        scenario.run(rest, services)
        return rest.answers
    finally:
        gateway.stop()


def main():
    """Returns the exit status."""
    os.environ.setdefault("HIMALIA_BIN", str(ROOT / "target" / "test-programs" / "himalia"))
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
