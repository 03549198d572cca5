"""A run of a workflow ends with the token that started it: no attempt follows, in this gateway or the next one."""

import pytest
from servers import Himalia, client_with
from waiting import eventually

MAIN = """\
def main(fails):
    if fails:
        raise ValueError("not yet")
    return {}
"""
MANIFEST = {
    "name": "tries",
    "version": "1.0.0",
    "kind": "code",
    "description": "Fails.",
    "inputs": {"type": "object", "properties": {"fails": {"type": "boolean"}}, "required": ["fails"]},
    "outputs": {"type": "object"},
}
WORKFLOW = {
    "name": "again",
    "version": "1.0.0",
    "description": "Tries again and again, and asks a person.",
    "inputs": {"type": "object", "properties": {"fails": {"type": "boolean"}}, "required": ["fails"]},
    "steps": [
        {"id": "try", "skill": {"name": "tries"}, "inputs": {"fails": {"from": "inputs.fails"}}, "retries": {"limit": 10, "wait_s": 3}},
        {"id": "ask", "approval": {"text": "Pay?", "options": ["yes", "no"]}, "inputs": {}},
    ],
    "outputs": {},
}
TOKEN = "token-of-bob-0123456789"


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway with the workflow in a tenant."""
    config = tmp_path / "himalia.toml"
    config.write_text(f'[tenants.acme]\ntokens = {{ bob = "{TOKEN}" }}\n')
    own = Himalia(tmp_path / "gateway", "--config", str(config))
    own.config_file = config
    with client_with(own, TOKEN) as bob:
        assert bob.post("v1/skills", json={"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}).status_code == 201
        assert bob.post("v1/workflows", json={"definition": WORKFLOW}).status_code == 201
    yield own
    own.stop()


def token_of(gateway, caller, scope="execute"):
    """A new token of the tenant: its text, and its id."""
    made = gateway.http.post("v1/tokens", json={"caller": caller, "scope": scope, "tenant": "acme"}).json()
    return made["token"], made["id"]


def start(gateway, token, fails):
    """Start the workflow; the id of the run."""
    with client_with(gateway, token) as http:
        reply = http.post("v1/workflows/again/runs", json={"inputs": {"fails": fails}})
        assert reply.status_code == 202, reply.text
        return reply.json()["id"]


def shown(gateway, run):
    """The run, by the operator."""
    return gateway.http.get(f"v1/runs/{run}").json()


def attempts(gateway, run):
    """The attempts of its first step."""
    return gateway.http.get(f"v1/runs/{run}/steps/try").json()["attempts"]


def assert_revoked(gateway, run):
    """Check that a run was cancelled because of its token."""
    ended = eventually(lambda: (found := shown(gateway, run))["status"] != "running" and found, lambda: shown(gateway, run), 60)
    assert (ended["status"], ended["cancelled_by"]) == ("cancelled", "gateway"), ended
    assert ended["error"]["code"] == "token_revoked" and "its token was revoked" in ended["error"]["message"], ended
    return ended


def test_no_attempt_follows_the_end_of_its_token(gateway):
    leaked, token = token_of(gateway, "ada")
    kept, _ = token_of(gateway, "kept")
    failing, asking, other = start(gateway, leaked, True), start(gateway, leaked, False), start(gateway, kept, False)
    eventually(lambda: [one for one in attempts(gateway, failing) if one["status"] == "failed"], "it fails", 60)
    for run in (asking, other):
        eventually(lambda run=run: [step["status"] for step in shown(gateway, run)["steps"]][-1] == "waiting", "it asks", 60)
    revoked = gateway.http.delete(f"v1/tokens/{token}").json()
    assert (revoked["stopped"], sorted(revoked["stopped_runs"])) == (2, sorted([failing, asking])), revoked
    for run in (failing, asking):
        assert_revoked(gateway, run)
    assert [one["status"] for one in attempts(gateway, failing) if one["status"] in ("running", "delayed")] == []
    assert shown(gateway, other)["status"] == "running"


def test_a_run_is_not_continued_by_the_next_gateway_without_its_token(gateway):
    run = start(gateway, TOKEN, True)
    eventually(lambda: [one for one in attempts(gateway, run) if one["status"] == "failed"], "it fails", 60)
    gateway.kill()
    gateway.config_file.write_text(f'[tenants.acme]\ntokens = {{ other = "another-{TOKEN}" }}\n')
    gateway.start()
    assert_revoked(gateway, run)


def test_a_run_that_a_schedule_has_started_ends_with_the_token_of_its_maker(gateway):
    leaked, token = token_of(gateway, "ada")
    schedule = {"name": "yearly", "cron": "0 0 1 1 *", "target": {"workflow": "again"}, "inputs": {"fails": False}}
    with client_with(gateway, leaked) as http:
        made = http.post("v1/schedules", json=schedule)
        assert made.status_code == 201, made.text
        asked = http.post("v1/schedules/yearly/runs", json={})
        assert asked.status_code == 202, asked.text
        [run] = http.get("v1/runs?schedule=yearly").json()["runs"]
        assert run["id"] == asked.json()["id"], run
    eventually(lambda: [step["status"] for step in shown(gateway, run["id"])["steps"]][-1:] == ["waiting"], "it asks", 60)
    assert gateway.http.delete(f"v1/tokens/{token}").status_code == 200
    assert_revoked(gateway, run["id"])
