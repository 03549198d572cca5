"""Runs the conformance suite of MCP, scenario after scenario, and compares with the scenarios that must pass.

The suite is unmodified, at the version that `make test-mcp-conformance` installs. `passing.json` has the scenarios that must pass, by
side and revision. With --write, scenarios that pass are added; one that is in the list and fails is always an error.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PASSING = HERE / "passing.json"
PAGE = HERE.parents[2] / "docs" / "reference" / "mcp-conformance.md"
# One scenario, on a loaded machine.
TIMEOUT = 180
REVISIONS = ["2026-07-28", "2025-11-25"]


def suite(arguments):
    """The command of the suite."""
    return [arguments.node, str(Path(arguments.suite) / "node_modules/@modelcontextprotocol/conformance/dist/index.js")]


def required(arguments, revision, side):
    """The scenarios that a revision requires of a side."""
    listed = subprocess.run(
        [*suite(arguments), "list", "--requirements", revision], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    section = re.search(rf"^{side.capitalize()} scenarios.*?:\n((?:  - .*\n)+)", listed, re.MULTILINE)
    return [line.removeprefix("  - ").strip() for line in section[1].splitlines()] if section else []


def run_client(arguments, revision, scenario):
    """One scenario of the client."""
    command = [*suite(arguments), "client", "--scenario", scenario, "--spec-version", revision]
    command += ["--command", shlex.join([sys.executable, str(HERE / "client.py")]), "--timeout", str(TIMEOUT * 1000)]
    return run(arguments, command, f"client-{revision}-{scenario}")


def run(arguments, command, name):
    """Runs a scenario; true: it passes, without warnings."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT + 30)
    out = Path(arguments.out) / (name.replace("/", "-") + ".log")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(done.stdout + done.stderr)
    passes = done.returncode == 0
    print(f"{'pass' if passes else 'FAIL'} {name} ({time.monotonic() - began:.0f} s)", flush=True)
    return passes


def page(passing, totals, version):
    """The page of the documentation."""
    lines = [
        "# MCP conformance",
        "",
        f"`make test-mcp-conformance` runs the conformance suite of MCP (`@modelcontextprotocol/conformance` {version}, unmodified) and writes",
        "this page. The suite tests the [client of tool servers](../how-to/tools.md): for each scenario it drives a gateway whose only tool server is the",
        "suite's own. A scenario with a warning counts as failed.",
        "",
        "| revision | side | pass | of |",
        "|---|---|---|---|",
    ]
    for revision in REVISIONS:
        for side, scenarios in passing[revision].items():
            lines.append(f"| {revision} | {side} | {len(scenarios)} | {totals[revision][side]['count']} |")
    lines += ["", "## Scenarios", "", "| scenario | " + " | ".join(REVISIONS) + " |", "|---|" + "---|" * len(REVISIONS)]
    names = sorted({name for revision in REVISIONS for name in totals[revision]["client"]["names"]})
    for name in names:
        cells = []
        for revision in REVISIONS:
            is_required = name in totals[revision]["client"]["names"]
            passes = name in passing[revision]["client"]
            cells.append(("pass" if passes else "fail") if is_required else "")
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    """All scenarios, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", required=True, help="directory with the suite's node_modules")
    parser.add_argument("--node", default="node", help="Node 22 or later")
    parser.add_argument("--out", default="target/mcp-conformance/out", help="directory for the output of each scenario")
    parser.add_argument("--revision", choices=REVISIONS, help="this one alone")
    parser.add_argument("--write", action="store_true", help="add scenarios that pass, and write the page")
    parser.add_argument("scenarios", nargs="*")
    arguments = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    passing = json.loads(PASSING.read_text())
    totals = {revision: {"client": {}} for revision in REVISIONS}
    failed = []
    for revision in REVISIONS:
        names = required(arguments, revision, "client")
        totals[revision]["client"] = {"count": len(names), "names": names}
        if arguments.revision not in (None, revision):
            continue
        must = passing[revision]["client"]
        for name in names:
            if arguments.scenarios and name not in arguments.scenarios:
                continue
            passes = run_client(arguments, revision, name)
            if passes and name not in must:
                must.append(name)
            elif not passes and name in must:
                failed.append(f"{revision} {name}")
        passing[revision]["client"] = sorted(must)
    version = json.loads((Path(arguments.suite) / "node_modules/@modelcontextprotocol/conformance/package.json").read_text())["version"]
    if arguments.write:
        PASSING.write_text(json.dumps(passing, indent=2) + "\n")
        PAGE.write_text(page(passing, totals, version))
    elif json.loads(PASSING.read_text()) != passing:
        print("scenarios that pass are not in passing.json: run with --write", file=sys.stderr)
    sys.exit("scenarios that must pass fail: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
