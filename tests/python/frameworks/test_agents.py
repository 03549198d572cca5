"""The examples of agents, each run as a user runs it, with a model that follows a script.

Their packages are in an environment of their own: `make test-examples`.
"""

import os
import subprocess
from pathlib import Path

import pytest
from scripted_model import ScriptedModel
from servers import Himalia

# With the packages of the agents.
PYTHON = os.environ["HIMALIA_AGENTS_PYTHON"]
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "agents"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    server = Himalia(tmp_path_factory.mktemp("gateway"))
    yield server
    server.stop()


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_agent_uses_what_it_computed_before(name, gateway, tmp_path):
    with ScriptedModel() as model:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HIMALIA_URL": gateway.url,
            "HIMALIA_TOKEN": gateway.token,
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "PYTHONPATH": str(EXAMPLES.parents[1] / "clients" / "python"),
        }
        done = subprocess.run(
            [PYTHON, EXAMPLES / name], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=180
        )
    assert done.returncode == 0, done.stderr
    assert "The 20th prime is 71" in done.stdout, done.stdout + done.stderr
    assert any("25 primes" in result for result in model.seen)
