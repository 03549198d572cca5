"""A client that a generator makes from docs/openapi.json works: `openapi-python-client`, unmodified, without settings."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

DESCRIPTION = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"
# What this generator has no form for: streams, and bodies that are neither JSON nor bytes of one known type.
LEFT_OUT = {
    "GET /v1/artifacts/{sha256}",
    "GET /v1/executions/{execution_id}/events",
    "GET /v1/sessions/{session_id}/archive",
    "GET /v1/sessions/{session_id}/executions/events",
    "GET /v1/sessions/{session_id}/files/{path}",
    "POST /v1/sessions/{session_id}/upload",
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The package that the generator made."""
    directory = tmp_path_factory.mktemp("generated")
    program = Path(sys.executable).with_name("openapi-python-client")
    command = [program, "generate", "--path", DESCRIPTION, "--output-path", directory / "generated_himalia", "--meta", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    warned = set(re.findall(r"WARNING parsing (\w+ \S+) within", done.stdout + done.stderr))
    assert warned <= LEFT_OUT, done.stdout
    sys.path.insert(0, str(directory))
    yield lambda name: importlib.import_module(f"generated_himalia.{name}")
    sys.path.remove(str(directory))


def test_a_generated_client_runs_code_and_reads_what_came_of_it(generated, shared):
    models, types = generated("models"), generated("types")
    client = generated("client").AuthenticatedClient(shared.url.rstrip("/"), shared.token, raise_on_unexpected_status=True)

    def call(tag, operation, *arguments, **options):
        return generated(f"api.{tag}.{operation}").sync(*arguments, client=client, **options)

    session = call("sessions", "create_session", body=models.NewSessionWithId(labels=None))
    try:
        result = call("executions", "execute", session.id, body=models.NewExecution(code="print('a'); x = 6; x * 7"))
        assert (str(result.status), result.text) == ("ok", "a\n")
        assert result.outputs[0].data.additional_properties["text/plain"] == "42"
        failed = call("executions", "execute", session.id, body=models.NewExecution(code="1 / 0"))
        assert failed.error.name == "ZeroDivisionError"
        listed = call("executions", "list_executions", session.id, limit=1)
        assert listed.executions[0].id == result.id and isinstance(listed.next_, str)
        listed = call("executions", "list_executions", session.id, limit=1, cursor=listed.next_)
        assert listed.executions[0].id == failed.id and listed.next_ is None
        again = call("executions", "get_execution", result.id)
        assert again.provenance is not types.UNSET
        [variable] = [one for one in call("variables", "list_variables", session.id).variables if one.name == "x"]
        assert variable.type_ == "int"
        problem = call("sessions", "get_session", "no-such")
        assert isinstance(problem, models.Problem) and problem.code == "session_not_found"
    finally:
        generated("api.sessions.end_session").sync_detailed(session.id, client=client)
