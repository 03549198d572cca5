"""The tables of README, docs/explain/performance.md and docs/operate/cluster.md, from the reports in docs/bench: `readme.py` compares, `readme.py --write` writes them."""

import json
import re
import sys
from pathlib import Path

import tables

ROOT = Path(__file__).resolve().parents[2]


def report(name):
    """What a bench wrote."""
    return json.loads((ROOT / "docs" / "bench" / f"{name}.json").read_text())


def blocks():
    """(page, name of the block, its text)."""
    gateway, sandboxes = report("gateway"), report("sandboxes")
    for name, table, made_from in (("gateway", tables.gateway, gateway), ("sandboxes", tables.sandboxes, sandboxes)):
        yield "docs/explain/performance.md", name, f"```text\n{table(made_from)}\n```\n\nMeasured on {tables.origin(made_from)}"
    for name, table in (("network", tables.network), ("tools", tables.tools)):
        made_from = report(name)
        measured = f"Measured by `tests/bench/{name}.py` with `{made_from['program']}`, on {tables.origin(made_from)}"
        yield "docs/explain/performance.md", name, f"```text\n{table(made_from)}\n```\n\n{measured}"
    made_from = report("wheel")
    yield "docs/explain/performance.md", "wheel", f"```text\n{tables.wheel(made_from)}\n```\n\nMeasured on {tables.origin(made_from)}"
    made_from = report("build")
    yield "docs/explain/performance.md", "build", f"```text\n{tables.build(made_from)}\n```\n\nMeasured on {tables.origin(made_from)}"
    made_from = report("cluster")
    yield "docs/operate/cluster.md", "cluster", f"```text\n{tables.cluster(made_from)}\n```\n\nMeasured on {tables.origin(made_from)}"
    yield "README.md", "summary", f"{tables.summary(gateway, sandboxes)}\n\nMeasured on {tables.origin(gateway)}"


def main():
    """Returns the exit status."""
    stale = False
    for page, name, block in blocks():
        path = ROOT / page
        text = path.read_text()
        block = f"<!-- bench {name} -->\n{block}\n<!-- end -->"
        wanted, count = re.subn(rf"<!-- bench {name} -->.*?<!-- end -->", lambda _: block, text, flags=re.S)
        if count != 1:
            raise ValueError(f"{page} has {count} places for the table of {name}")
        if "--write" in sys.argv[1:]:
            path.write_text(wanted)
        elif text != wanted:
            print(f"{page}: the table of {name} is not that of docs/bench; `make bench-readme` writes it", file=sys.stderr)
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
