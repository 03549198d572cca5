"""Everything that names the version names the version of Cargo.toml; links of the pages are decoded; what CI runs is pinned; scripts of packages run."""

import base64
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "packaging" / "release"))
import links  # noqa: E402
import project  # noqa: E402

PACKAGING = ROOT / "packaging"


def read(path):
    text = (ROOT / path).read_text()
    return tomllib.loads(text) if path.endswith(".toml") else json.loads(text) if path.endswith(".json") else yaml.safe_load(text)


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("clients/python/pyproject.toml", ("project", "version")),
        ("clients/javascript/package.json", ("version",)),
        ("clients/javascript/package-lock.json", ("version",)),
        ("packaging/mcpb/manifest.json", ("version",)),
        ("packaging/claude-code/.claude-plugin/plugin.json", ("version",)),
        ("packaging/chart/himalia/Chart.yaml", ("version",)),
        ("packaging/chart/himalia/Chart.yaml", ("appVersion",)),
        ("docs/openapi.json", ("info", "version")),
    ],
)
def test_the_version_is_that_of_cargo(path, keys):
    value = read(path)
    for key in keys:
        value = value[key]
    assert value == project.version()


def test_the_pages_name_files_of_this_version():
    pages = [ROOT / "README.md", ROOT / "docs" / "start" / "install.md", PACKAGING / "chart" / "himalia" / "README.md"]
    for page in pages:
        named = re.findall(r"\bhimalia[-_](?:chart-)?(\d+\.\d+\.\d+)", page.read_text())
        assert set(named) <= {project.version()}, page
    assert re.search(r"himalia[-_]\d", pages[1].read_text())


def test_the_marketplace_names_the_plugin_of_this_repository():
    market = read(".claude-plugin/marketplace.json")
    for entry in market["plugins"]:
        plugin = json.loads((ROOT / entry["source"] / ".claude-plugin" / "plugin.json").read_text())
        assert plugin["name"] == entry["name"]
        assert json.loads((ROOT / entry["source"] / ".mcp.json").read_text())["mcpServers"]["himalia"]["args"] == ["mcp"]


def test_the_skill_names_tools_and_arguments_that_exist():
    skill = (PACKAGING / "claude-code" / "skills" / "himalia" / "SKILL.md").read_text()
    head = yaml.safe_load(skill.split("---")[1])
    assert head["name"] == "himalia" and len(head["description"]) <= 1024
    page = (ROOT / "docs" / "reference" / "mcp.md").read_text()
    tools = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", page, re.M)
    known = {name for name, _ in tools} | {name for _, arguments in tools for name in re.findall(r"`(\w+)`", arguments)}
    table = skill.split("| tool |")[1].split("\n\n")[0]
    named = set(re.findall(r"\| `(\w+)`", table)) | {"wait_s", "timeout_s", "input_for", "allow_stdin", "count", "image_bytes"}
    assert named and named <= known, named - known


def test_the_links_add_the_program_to_both_hosts():
    page = links.PAGE.read_text()
    found = re.findall(r"\((https://[^)]*install[^)]*)\)", page.split(links.BEGIN)[1].split(links.END)[0])
    by_host = {urlsplit(link).hostname: parse_qs(urlsplit(link).query, strict_parsing=True) for link in found}
    assert by_host.keys() == {"vscode.dev", "cursor.com"}
    assert all(query["name"] == ["himalia"] for query in by_host.values())
    vscode = json.loads(by_host["vscode.dev"]["config"][0])
    cursor = json.loads(base64.b64decode(by_host["cursor.com"]["config"][0], validate=True))
    assert vscode == {"type": "stdio", "command": "himalia", "args": ["mcp"]}
    assert cursor == {"command": "himalia", "args": ["mcp"]}


def test_the_unit_of_the_package_names_its_paths():
    import programs

    unit = programs.unit()
    assert "/usr/local" not in unit
    assert "ExecStart=/usr/bin/himalia serve --config /etc/himalia/himalia.toml" in unit
    settings = tomllib.loads((PACKAGING / "debian" / "himalia.toml").read_text())
    assert settings["listen"].startswith("127.0.0.1:")


def configured(tmp_path, systemd, *arguments):
    """What the Debian package's `postinst` calls and prints, on a system with this version of systemd."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    systemctl = tmp_path / "bin/systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\nif [ "$1" = --version ]; then echo "systemd {systemd} ({systemd}.1-1)"; fi\n')
    systemctl.chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "DPKG_ROOT": str(tmp_path)}
    done = subprocess.run(["sh", PACKAGING / "debian" / "postinst", "configure", *arguments], env=env, check=True, capture_output=True, text=True, timeout=20)
    assert (tmp_path / "var/lib/himalia").stat().st_mode & 0o777 == 0o700
    return (tmp_path / "calls").read_text().splitlines(), done.stderr


@pytest.mark.parametrize("systemd", [252, 257])
def test_a_new_package_starts_nothing(tmp_path, systemd):
    assert configured(tmp_path, systemd) == (["daemon-reload"], "")


def test_an_upgrade_restarts_the_service(tmp_path):
    calls, printed = configured(tmp_path, 257, "0.0.9")
    assert calls[-1] == "try-restart himalia.service" and printed == ""


def test_an_upgrade_restarts_nothing_where_systemd_cannot_start_the_unit_beside_sandboxes(tmp_path):
    calls, printed = configured(tmp_path, 252, "0.0.9")
    assert not any("restart" in call for call in calls)
    assert "end the sessions" in printed and "systemctl restart himalia" in printed


def test_the_placeholders_of_the_owner_agree():
    teams = set(re.findall(r"@(\S+)", (ROOT / ".github" / "CODEOWNERS").read_text()))
    assert teams and {team.split("/")[0] for team in teams} == {project.REPOSITORY.split("/")[0]}
    page = (ROOT / "docs" / "contributing" / "releasing.md").read_text()
    for placeholder in (*teams, project.REPOSITORY, project.MAINTAINER):
        assert f"`{placeholder}`" in page or f"`@{placeholder}`" in page, placeholder


def workflows():
    return sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_actions_and_images_of_workflows_are_pinned_by_hash():
    for path in workflows():
        for used in re.findall(r"uses: (\S+)", path.read_text()):
            assert used.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), f"{path.name}: {used}"
        for image in re.findall(r"image: (\S+)", path.read_text()):
            assert re.search(r"@sha256:[0-9a-f]{64}$", image), f"{path.name}: {image}"


def test_a_release_starts_on_a_tag_and_is_tried_on_its_changes():
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    # YAML reads `on` as true.
    on = release[True]
    assert on["push"]["tags"] == ["v*"]
    assert {".github/workflows/release.yml", "packaging/**"} <= set(on["pull_request"]["paths"])
    publish = release["jobs"]["publish"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert release["permissions"] == {"contents": "read"}
    # No other job may write.
    assert [name for name, job in release["jobs"].items() if "write" in json.dumps(job.get("permissions", {}))] == ["publish"]


@pytest.mark.parametrize(("tag", "accepted"), [(f"v{project.version()}", True), ("v0.0.0", False), (project.version(), False)])
def test_a_release_compares_its_tag_with_the_version_of_the_workspace(tag, accepted):
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    [step] = [step for step in release["jobs"]["files"]["steps"] if step.get("name") == "The tag is the version"]
    done = subprocess.run(["bash", "-c", step["run"]], cwd=ROOT, env={"PATH": os.environ["PATH"], "GITHUB_REF_NAME": tag}, check=False)
    assert (done.returncode == 0) is accepted


def test_dependabot_knows_every_lock_file():
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    known = {(entry["package-ecosystem"], path.strip("/")) for entry in updates for path in entry.get("directories", [entry.get("directory")])}
    names = {"Cargo.lock": "cargo", "package-lock.json": "npm", "requirements.lock": "pip", "Dockerfile": "docker"}
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files"], check=True, capture_output=True, text=True).stdout
    found = {(names[Path(name).name], str(Path(name).parent).replace(".", "", 1) if "/" not in name else str(Path(name).parent))
             for name in listed.split() if Path(name).name in names}
    assert found <= known, sorted(found - known)
    assert ("github-actions", "") in known


def test_labels_of_templates_exist():
    labels = {label["name"] for label in yaml.safe_load((ROOT / ".github" / "labels.yml").read_text())}
    used = set()
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        used |= set(yaml.safe_load(path.read_text()).get("labels", []))
    issues = (ROOT / "docs" / "contributing" / "first-issues.md").read_text()
    used |= {label for line in re.findall(r"^Labels: (.*)$", issues, re.M) for label in re.findall(r"`([^`]+)`", line)}
    assert used and used <= labels, used - labels
    assert len(re.findall(r"^## \d+\. ", issues, re.M)) == 10
