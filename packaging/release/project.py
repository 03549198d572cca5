"""Facts of the project that the files of a release repeat: one source for each."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = "Live Python sessions for agents: code, files, plots and long jobs on a Himalia gateway"
LICENSE = "BSD-3-Clause"
# Placeholders until the project has an owner: docs/contributing/releasing.md.
REPOSITORY = "himalia/himalia"
MAINTAINER = "Himalia <himalia@localhost>"
PROGRAMS = ("himalia", "himalia-shim", "himalia-jail")


def version():
    """Cargo.toml has it; everything else is compared with it."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def seconds():
    """The time of all entries of archives, so that the same sources make the same files."""
    return 1767225600
