"""Links lead somewhere, examples can be read by what reads them, and the tables are those that were measured."""

import json
import os
import re
import subprocess
import sys
import tomllib
from urllib.parse import unquote

import pytest
from pages import ROOT, anchors, blocks, links, pages

sys.path.insert(0, str(ROOT / "tests" / "bench"))
import tables  # noqa: E402

TOML = [(page, text) for page in pages() for _, _, text in blocks(page, "toml")]
# Those with an ellipsis leave something out.
COMMIT = re.compile(r"\bcommit `?([0-9a-f]{7,40})\b")
JSON = [(page, text) for page in pages() for _, _, text in blocks(page, "json") if "…" not in text]


def named(value):
    return str(value.relative_to(ROOT)) if hasattr(value, "relative_to") else None


@pytest.mark.parametrize("page", pages(), ids=named)
def test_links_lead_somewhere(page):
    broken = []
    for link in links(page):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            broken.append(f"{link}: there is no {target}")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            broken.append(f"{link}: {target.name} has no such heading")
    assert not broken, broken


def test_the_checker_sees_a_broken_link(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b` (c)\n[x](there.md#a) ![y](y.png 'title') `[z](no)`\n```\n[not](one)\n```\n<img src=\"i.png\">\n")
    assert links(page) == ["there.md#a", "y.png", "i.png"]
    assert anchors(page) == {"a-b-c"}


@pytest.mark.parametrize("page, text", TOML, ids=named)
def test_examples_of_configuration_are_taken(page, text, tmp_path):
    tomllib.loads(text)
    secret = tmp_path / "token"
    secret.write_text("a token that is certainly long enough")
    secret.chmod(0o600)
    file = tmp_path / "himalia.toml"
    for name in ("data", "homes"):
        (tmp_path / "srv" / name).mkdir(parents=True)
    own = {"sha256:…": "sha256:" + "5e" * 32, "/run/secrets/build-agent": str(secret), '"/srv/': f'"{tmp_path}/srv/'}
    for written, there in own.items():
        text = text.replace(written, there)
    file.write_text(text)
    env = {**os.environ, "HIMALIA_DATA_DIR": str(tmp_path / "data"), "HIMALIA_RUN_DIR": str(tmp_path / "run")}
    done = subprocess.run(
        [os.environ["HIMALIA_BIN"], "doctor", "--config", file], env=env, capture_output=True, text=True, timeout=100
    )
    # What the machine lacks is not the example's fault; what the gateway cannot read is.
    assert str(file) not in done.stderr and done.returncode in (0, 1), done.stderr
    assert done.stdout, done.stderr


@pytest.mark.parametrize("page, text", JSON, ids=named)
def test_examples_in_json_are_json(page, text):
    json.loads(text)


@pytest.mark.parametrize("page", pages(), ids=named)
def test_figures_name_commits_that_exist(page):
    gone = [commit for commit in COMMIT.findall(page.read_text()) if not is_in_history(commit)]
    assert not gone, f"{gone}: figures name a commit of the history of HEAD, or none"


def is_in_history(commit):
    """Whether HEAD has this commit among its ancestors."""
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(command, capture_output=True).returncode == 0


def test_a_tree_with_changes_is_named_in_words():
    assert tables.origin({"commit": "1234567+", "date": "d", "machine": "m"}) == "commit 1234567 with uncommitted changes, d, m."
    assert not any("+" in commit for page in pages() for commit in re.findall(r"commit `?[0-9a-f]{7}(\S*)", page.read_text()))


def test_the_tables_are_those_that_were_measured():
    done = subprocess.run([sys.executable, ROOT / "tests/bench/readme.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page, most", [("README.md", 500), ("ARCHITECTURE.md", 2500)])
def test_the_first_pages_are_short(page, most):
    text = re.sub(r"\]\([^)]*\)|<!--.*?-->", "", (ROOT / page).read_text(), flags=re.S)
    assert len(re.findall(r"[A-Za-z0-9][\w.,'-]*", text)) <= most


def test_the_index_of_decisions_has_their_titles():
    folder = ROOT / "docs" / "adr"
    titles = {page.name: page.read_text().split("\n")[0].split(". ", 1)[1] for page in folder.glob("0*.md")}
    rows = re.findall(r"^\| \[\d+\]\(([^)]+)\) \| (.*?) \| ", (folder / "README.md").read_text(), re.M)
    assert dict(rows) == titles
