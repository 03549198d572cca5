"""Pages whose commands are typed in order, with the output that they show (see walkthrough.py)."""

import os
import re
import sys
from pathlib import Path

import pytest
from pages import ROOT, pages
from test_commands import Up
from walkthrough import agrees, roles, walk

PAGES = [page for page in pages() if any(role == "step" for role, _, _ in roles(page.read_text()))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_typed_from_top_to_bottom(page, tmp_path_factory, kernel_python):
    directory = tmp_path_factory.mktemp("here")
    up = Up(tmp_path_factory.mktemp("home"), kernel_python)
    try:
        here = {"HIMALIA_URL": up.url, "HIMALIA_TOKEN_FILE": str(up.data / "token")}
        variables = up.variables | here | {"PYTHONPATH": str(ROOT / "clients" / "python")}
        variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
        usual, url = "http://127.0.0.1:8888", up.url.rstrip("/")

        def seen(printed):
            return printed.replace(url, usual).replace(str(up.home), "/home/ada").replace(str(directory), "/home/ada/work")

        text = page.read_text().replace(usual, url)
        for command, shown, printed in walk(text, directory, {**os.environ, **variables}, seen):
            if shown is not None:
                assert agrees(shown.replace(url, usual), printed), f"{command}\nshown:\n{shown}\nprinted:\n{printed}"
        for session in up.http.get("v1/sessions").json()["sessions"]:
            up.delete_session(session["id"])
    finally:
        up.stop()


# Why the commands of a page are not typed, and the tests of the same commands.
EXCEPTIONS = {
    "docs/tutorials/first-contribution.md": "compiles the gateway: Makefile",
    "docs/tutorials/jupyterlab.md": "needs a browser: tests/js/test/lab.test.js tests/python/docs/test_jupyterlab.py",
    "docs/tutorials/kubernetes.md": "needs a cluster: tests/kubernetes/run.sh tests/python/docs/test_manifests.py",
    "docs/tutorials/team-server.md": "needs root, systemd and Prometheus: tests/cgroup2 tests/python/e2e/test_service.py tests/python/e2e/test_oidc.py",
    "docs/how-to/azure.md": "needs a gateway with `--azure`: tests/python/e2e/test_azure.py",
    "docs/how-to/connect.md": "needs clients with windows: tests/python/e2e/test_connect.py",
    "docs/how-to/credentials.md": "needs services and a configuration: tests/python/sandbox/test_credentials.py",
    "docs/how-to/e2b.md": "needs a gateway with `--e2b`: tests/python/e2e/test_e2b.py tests/python/e2e/test_e2b_methods.py",
    "docs/how-to/jupyterlab.md": "needs a browser: tests/python/docs/test_jupyterlab.py",
    "docs/how-to/kernels.md": "installs packages of the system: tests/python/sandbox/test_other_kernels.py",
    "docs/how-to/packages.md": "needs a package index: tests/python/e2e/test_packages_shown.py tests/python/sandbox/test_packages.py",
    "docs/how-to/skills.md": "one block is typed inside a sandbox: tests/python/sandbox/test_skills_in_sessions.py",
    "docs/how-to/tools.md": "needs servers of tools: tests/python/sandbox/test_tools.py",
}


def untyped(page):
    """The blocks of commands that no test types. `himalia up` is what starts the gateway of the tests."""
    text = re.sub(r"^<!-- [^\n]* -->\n```.*?^```$", "", page.read_text(), flags=re.S | re.M)
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
    commands = [block for language, block in found if language in ("", "sh") or block.startswith("$ ")]
    return [block for block in commands if not re.match(r"(GET|POST|PUT|PATCH|DELETE) |himalia up\b", block)]


@pytest.mark.parametrize("folder", ["tutorials", "how-to"])
def test_commands_that_are_not_typed_have_a_reason(folder):
    found = {str(page.relative_to(ROOT)) for page in pages() if page.is_relative_to(ROOT / "docs" / folder) and untyped(page)}
    assert found == {name for name in EXCEPTIONS if f"/{folder}/" in name}
    tests = [path for reason in EXCEPTIONS.values() for path in reason.split(": ")[1].split()]
    assert [path for path in tests if not (ROOT / path).exists()] == []


def test_outputs_agree_if_only_ids_times_and_sizes_differ():
    shown = "session 0b9c6d5e-1111-4222-8333-444455556666 is ready after 12 ms\n…\nwrote a.png (3.1 KiB)\n"
    printed = shown.replace("0b9c", "ffff").replace("12 ms", "1.5 ms").replace("…", "one\ntwo").replace("3.1", "3.2")
    assert agrees(shown, printed)
    assert not agrees(shown, printed.replace("a.png", "b.png"))
    assert not agrees("1 row\n", "2 rows\n")


def test_a_step_that_fails_is_seen(tmp_path):
    page = "<!-- step -->\n```sh\necho one\n```\n\n<!-- output -->\n```text\none\n```\n\n<!-- step -->\n```sh\nfalse\n```\n"
    with pytest.raises(AssertionError, match="false"):
        walk(page, tmp_path, dict(os.environ))
    first = page.split("\n\n<!-- step -->\n```sh\nfalse")[0] + "\n"
    assert walk(first, tmp_path, dict(os.environ)) == [("echo one\n", "one\n", "one\n")]
