"""Runs the conformance suite of MCP, scenario after scenario, and compares with the scenarios that must pass.

The suite is unmodified, at the version that `make test-mcp-conformance` installs. `passing.json` has the scenarios that must pass, by
side and revision. With --write, scenarios that pass are added; one that is in the list and fails is always an error.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "support"))
from fixtures import Fixtures  # noqa: E402
from servers import Himalia  # noqa: E402

HERE = Path(__file__).parent
PASSING = HERE / "passing.json"
PAGE = HERE.parents[2] / "docs" / "reference" / "mcp-conformance.md"
# One scenario, on a loaded machine.
TIMEOUT = 600
REVISIONS = ["2026-07-28", "2025-11-25"]
SIDES = ["client", "server"]
# Server scenarios of what Himalia does not offer, and why they cannot pass.
NOT_OFFERED = {
    "elicitation-sep1034-defaults": "forms with several fields: code asks one question at a time",
    "elicitation-sep1330-enums": "forms with several fields: code asks one question at a time",
    "input-required-result-basic-list-roots": "questions for roots, which are deprecated",
    "input-required-result-basic-sampling": "sampling, which is deprecated",
    "input-required-result-capability-check": "sampling, which is deprecated",
    "input-required-result-ignore-extra-params": "answers without the `requestState` of their question, which says what a person has read",
    "input-required-result-multiple-input-requests": "sampling and roots, which are deprecated",
    "input-required-result-non-tool-request": "prompts that ask: a prompt is the text of a skill",
    "logging-set-level": "log messages, which are deprecated: output is in results and progress notifications",
    "prompts-get-embedded-resource": "resources in prompts: a prompt is the text of a skill",
    "prompts-get-with-args": "arguments of prompts: a prompt is the text of a skill",
    "prompts-get-with-image": "images in prompts: a prompt is the text of a skill",
    "resources-subscribe": "subscriptions to resources: clients of this revision have no stream between calls",
    "resources-unsubscribe": "subscriptions to resources: clients of this revision have no stream between calls",
    "server-stateless": "tools that need sampling, which is deprecated, or change the list of tools",
    "tools-call-embedded-resource": "embedded resources: hosts differ in what they show of them, so a large value is a link",
    "tools-call-mixed-content": "embedded resources: hosts differ in what they show of them, so a large value is a link",
    "tools-call-sampling": "sampling, which is deprecated",
    "tools-call-with-logging": "log messages, which are deprecated: output is in results and progress notifications",
}


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


def run_server(arguments, revision, scenario, url):
    """One scenario of the server."""
    command = [*suite(arguments), "server", "--url", url, "--scenario", scenario, "--spec-version", revision]
    return run(arguments, command, f"server-{revision}-{scenario}")


def run(arguments, command, name):
    """Runs a scenario; true: it passes, without warnings."""
    began = time.monotonic()
    out = Path(arguments.out) / (name.replace("/", "-") + ".log")
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w") as log:
        try:
            status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=TIMEOUT + 30).returncode
        except subprocess.TimeoutExpired:
            status = "no end in time"
    # Warnings of a server are no failure for the suite itself.
    passes = status == 0 and not re.search(r"[1-9]\d* warnings", out.read_text())
    print(f"{'pass' if passes else 'FAIL'} {name} ({time.monotonic() - began:.0f} s)", flush=True)
    return passes


def page(passing, required_names, version):
    """The page of the documentation."""
    lines = [
        "# MCP conformance",
        "",
        f"`make test-mcp-conformance` runs the conformance suite of MCP (`@modelcontextprotocol/conformance` {version}, unmodified) and writes",
        "this page. A scenario with a warning counts as failed.",
        "",
        "- Client: the suite tests the [client of tool servers](../how-to/tools.md). For each scenario it drives a gateway whose only tool server is the",
        "  suite's own.",
        "- Server: the suite tests [`/mcp`](mcp.md) of a gateway with real kernels. The suite calls tools and reads resources with names of its own, such as",
        "  `test_simple_text`. A proxy of the tests turns each into a call of `execute`, into a file of a session or into a skill.",
        "",
        "| revision | side | pass | of |",
        "|---|---|---|---|",
    ]
    for revision in REVISIONS:
        for side in SIDES:
            lines.append(f"| {revision} | {side} | {len(passing[revision][side])} | {len(required_names[revision][side])} |")
    for side in SIDES:
        reason = side == "server"
        head = "| scenario | " + " | ".join(REVISIONS) + " |" + (" not offered |" if reason else "")
        lines += ["", f"## {side.capitalize()} scenarios", "", head, "|---|" + "---|" * (len(REVISIONS) + reason)]
        for name in sorted({name for revision in REVISIONS for name in required_names[revision][side]}):
            cells = []
            for revision in REVISIONS:
                is_required = name in required_names[revision][side]
                passes = name in passing[revision][side]
                cells.append(("pass" if passes else "fail") if is_required else "")
            if reason:
                cells.append(NOT_OFFERED.get(name, "") if "fail" in cells else "")
            lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def gateway():
    """The address of a gateway's tools, with names of the suite."""
    with tempfile.TemporaryDirectory() as directory:
        started = Himalia(Path(directory) / "gateway")
        try:
            with Fixtures(started) as fixtures:
                yield fixtures.url
        finally:
            started.stop()


def scenarios(arguments, names):
    """Those that are wanted."""
    return [name for name in names if not arguments.scenarios or name in arguments.scenarios]


def results(arguments, passing, required_names):
    """Each scenario with its revision, its side, and whether it passes. One that must pass runs again if it fails, as tests do in CI."""

    def passes(side, run_one, *what):
        runs = 1 + (arguments.reruns if what[1] in passing[what[0]][side] else 0)
        return any(run_one(arguments, *what) for _ in range(runs))

    for revision in REVISIONS:
        if arguments.revision not in (None, revision):
            continue
        if arguments.side in (None, "client"):
            for name in scenarios(arguments, required_names[revision]["client"]):
                yield revision, "client", name, passes("client", run_client, revision, name)
        wanted = scenarios(arguments, required_names[revision]["server"])
        if arguments.side in (None, "server") and wanted:
            with gateway() as url:
                for name in wanted:
                    yield revision, "server", name, passes("server", run_server, revision, name, url)


def main():
    """All scenarios, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", required=True, help="directory with the suite's node_modules")
    parser.add_argument("--node", default="node", help="Node 22 or later")
    parser.add_argument("--out", default="target/mcp-conformance/out", help="directory for the output of each scenario")
    parser.add_argument("--revision", choices=REVISIONS, help="this one alone")
    parser.add_argument("--side", choices=SIDES, help="this one alone")
    parser.add_argument("--reruns", type=int, default=0, help="how often a scenario that fails runs again, at most")
    parser.add_argument("--write", action="store_true", help="add scenarios that pass, and write the page")
    parser.add_argument("scenarios", nargs="*")
    arguments = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    passing = json.loads(PASSING.read_text())
    required_names = {revision: {side: required(arguments, revision, side) for side in SIDES} for revision in REVISIONS}
    failed, new = [], []
    for revision, side, name, passes in results(arguments, passing, required_names):
        must = passing[revision].setdefault(side, [])
        if passes and name not in must:
            must.append(name)
            must.sort()
            new.append(f"{side} {revision} {name}")
        elif not passes and name in must:
            failed.append(f"{side} {revision} {name} must pass")
    version = json.loads((Path(arguments.suite) / "node_modules/@modelcontextprotocol/conformance/package.json").read_text())["version"]
    if arguments.write:
        PASSING.write_text(json.dumps(passing, indent=2) + "\n")
        PAGE.write_text(page(passing, required_names, version))
    elif new:
        failed.append("scenarios that pass are not in passing.json (run with --write): " + ", ".join(new))
    sys.exit("; ".join(failed) or 0)


if __name__ == "__main__":
    main()
