"""What a report says of itself, and how it is written."""

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def about():
    """The commit that is measured (`+` for one with changes), the day and the machine."""

    def git(*arguments):
        return subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout.strip()

    # Reports of this run are no changes of what is measured.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/bench", ":!README.md")
    return {
        "commit": git("rev-parse", "--short=7", "HEAD") + ("+" if changed else ""),
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release().partition('-')[0]}",
    }


def write(report, path):
    """Writes a report. Levels that an earlier run measured on the same commit and machine stay in it."""
    if path.exists() and "levels" in report:
        earlier = json.loads(path.read_text())
        if all(earlier.get(name) == report[name] for name in ("commit", "machine")):
            report["levels"] = {**earlier["levels"], **report["levels"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
