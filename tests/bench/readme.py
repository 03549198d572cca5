"""README's tables, from the reports in docs/bench: `readme.py` compares, `readme.py --write` writes them."""

import json
import re
import sys
from pathlib import Path

import tables

ROOT = Path(__file__).resolve().parents[2]
TABLES = {"gateway": tables.gateway, "sandboxes": tables.sandboxes}


def rendered(text):
    """The text of README with each table as its report has it."""
    for name, table in TABLES.items():
        report = json.loads((ROOT / "docs" / "bench" / f"{name}.json").read_text())
        block = f"<!-- bench {name} -->\n```text\n{table(report)}\n```\n\nMeasured on {tables.origin(report)}\n<!-- end -->"
        text, count = re.subn(rf"<!-- bench {name} -->.*?<!-- end -->", lambda _: block, text, flags=re.S)
        if count != 1:
            raise ValueError(f"README has {count} places for the table of {name}")
    return text


def main():
    """Returns the exit status."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    wanted = rendered(text)
    if "--write" in sys.argv[1:]:
        readme.write_text(wanted)
    elif text != wanted:
        print("README's tables are not those of docs/bench: `make bench-readme` writes them", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
