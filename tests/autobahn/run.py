"""`make autobahn`: the fuzzing client of the Autobahn test suite against the gateway's WebSocket layer.

Builds and starts `crates/http/examples/echo.rs`, runs the cases, prints those that are not `OK`, and writes the table of results.
Ends with 1 if a case failed. The suite needs Python 2.7; its packages go into a folder of their own.
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
AGENT = "himalia"
GROUPS = {
    "1": "Framing: text and binary messages, up to 65,536 bytes, also in many small pieces",
    "2": "Pings and pongs",
    "3": "Reserved bits",
    "4": "Opcodes",
    "5": "Fragmentation",
    "6": "UTF-8",
    "7": "Closing: handshake, codes, reasons",
    "9": "Limits: messages and fragments of up to 16 MiB",
    "10": "Frames that the server may cut itself",
}
# 12 and 13 are compression, which the gateway does not offer.
CASES = [f"{group}.*" for group in GROUPS]
MEANINGS = {
    "OK": "as the suite expects",
    "NON-STRICT": "allowed by the protocol, the suite would like it otherwise",
    "INFORMATIONAL": "the suite only writes down what happens",
    "FAILED BY CLIENT": "the suite would rather have the server end the TCP connection",
    "FAILED": "against the protocol",
}
RUN = "import site, sys; site.addsitedir(sys.argv[1]); sys.argv[:2] = ['wstest']; from autobahntestsuite.wstest import run; run()"


def python2():
    found = os.environ.get("PYTHON2") or shutil.which("python2.7")
    if not found:
        sys.exit("the suite needs Python 2.7: name one in PYTHON2")
    return found


def suite(folder):
    """The suite's packages, installed once per list of them."""
    wanted = (HERE / "requirements.txt").read_text()
    packages, ready = folder / "packages", folder / "ready"
    if not ready.exists() or ready.read_text() != wanted:
        shutil.rmtree(packages, ignore_errors=True)
        pip = [python2(), "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages]
        subprocess.run([*pip, "-r", HERE / "requirements.txt"], check=True)
        ready.write_text(wanted)
    return packages


def start_server():
    build = ["cargo", "build", "--locked", "--quiet", "-p", "himalia-http", "--features", "echo", "--example", "echo"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    server = subprocess.Popen([target / "debug/examples/echo"], stderr=subprocess.PIPE, text=True)
    return server, server.stderr.readline().strip()


def fuzz(folder, url, cases):
    reports = folder / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    spec = folder / "spec.json"
    servers = [{"agent": AGENT, "url": url}]
    spec.write_text(json.dumps({"outdir": str(reports), "servers": servers, "cases": cases, "exclude-cases": []}))
    client = [python2(), "-W", "ignore", "-c", RUN, suite(folder), "-m", "fuzzingclient", "-s", spec]
    subprocess.run(client, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return json.loads((reports / "index.json").read_text())[AGENT]


def number(case):
    return [int(part) for part in case.split(".")]


def table(results):
    lines = [
        "# The Autobahn test suite",
        "",
        "`make autobahn` runs the fuzzing client of the [Autobahn test suite](https://github.com/crossbario/autobahn-testsuite) 0.8.2 against",
        "[`crates/http/examples/echo.rs`](../../crates/http/examples/echo.rs): an echo server, over the gateway's own handshake,",
        "reader and outbox. It writes this page. A case has two results: of the conversation, and of how the connection closed.",
        "Cases 12 and 13 are left out: they test compression, which the gateway does not offer.",
        "",
        "| cases | subject | number | conversation | closing |",
        "|---|---|---|---|---|",
    ]
    for group, what in GROUPS.items():
        of_group = [result for case, result in results.items() if case.split(".")[0] == group]
        if of_group:
            counts = (count(of_group, key) for key in ("behavior", "behaviorClose"))
            lines.append(f"| {group} | {what} | {len(of_group)} | {' | '.join(counts)} |")
    every = list(results.values())
    lines.append(f"| all | | {len(every)} | {count(every, 'behavior')} | {count(every, 'behaviorClose')} |")
    seen = {result[key] for result in every for key in ("behavior", "behaviorClose")}
    lines += ["", "| result | meaning |", "|---|---|"]
    lines += [f"| {name} | {meaning} |" for name, meaning in MEANINGS.items() if name in seen]
    others = [(case, result) for case, result in results.items() if {result["behavior"], result["behaviorClose"]} != {"OK"}]
    if others:
        lines += ["", "Cases that are not `OK`:", "", "| case | conversation | closing |", "|---|---|---|"]
        for case, result in sorted(others, key=lambda item: number(item[0])):
            lines.append(f"| {case} | {result['behavior']} | {result['behaviorClose']} |")
    return "\n".join(lines) + "\n"


def count(results, key):
    counts = collections.Counter(result[key] for result in results)
    return ", ".join(f"{counts[name]} {name}" for name in MEANINGS if counts[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the table there")
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated; the default is all that the gateway should pass")
    parser.add_argument("--url", help="test this server in place of the example")
    args = parser.parse_args()
    folder = ROOT / "target/autobahn"
    folder.mkdir(parents=True, exist_ok=True)
    suite(folder)
    server, url = (None, args.url) if args.url else start_server()
    try:
        if not re.fullmatch(r"wss?://\S+", url):
            sys.exit(f"the server did not start: {url}")
        results = fuzz(folder, url, args.cases.split(","))
    finally:
        if server:
            server.kill()
            server.wait()
    text = table(results)
    print(text)
    if args.out:
        args.out.write_text(text)
    failed = any("FAILED" in (result["behavior"], result["behaviorClose"]) for result in results.values())
    unknown = {result[key] for result in results.values() for key in ("behavior", "behaviorClose")} - set(MEANINGS)
    if failed or unknown:
        sys.exit(f"not as it should be; {folder}/reports has the details {unknown or ''}")


if __name__ == "__main__":
    main()
