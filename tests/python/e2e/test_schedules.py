"""Schedules on a gateway with real kernels: due times become runs, each once, whatever happens to gateways."""

import json
import sqlite3
import subprocess
import time

import pytest
from replicas import Replicas
from servers import Himalia, client_with
from terminal import command
from waiting import eventually

# Each run adds a line to a file, so that one that ran twice is seen.
MAIN = """\
import os, time

def main(path, seconds=0, wrong=False):
    with open(path, "a") as file:
        print(os.getpid(), file=file)
    time.sleep(seconds)
    if wrong:
        raise ValueError("no such account")
    return {"path": path}
"""
MANIFEST = {
    "name": "note",
    "version": "1.0.0",
    "kind": "code",
    "description": "Adds a line to a file.",
    "inputs": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "seconds": {"type": "number"}, "wrong": {"type": "boolean"}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "outputs": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
YEARLY = "0 0 1 1 *"
OFTEN = "*/10 * * * * *"
OVER = ("succeeded", "failed", "cancelled", "skipped", "missed")


def publish(server, **changes):
    """Publish the skill of this file."""
    body = {"manifest": {**MANIFEST, **changes}, "files": {"main.py": {"text": MAIN}}}
    assert server.http.post("v1/skills", json=body).status_code in (200, 201)


def publish_workflow(server, name="two", approval=False):
    """Publish a workflow of two steps, each of which adds a line to the file; with `approval` between them."""
    path, seconds = {"from": "inputs.path"}, {"from": "inputs.seconds"}
    steps = [{"id": "first", "skill": {"name": "note"}, "inputs": {"path": path, "seconds": seconds, "wrong": {"from": "inputs.wrong"}}}]
    if approval:
        steps.append({"id": "sign", "approval": {"text": "Continue?", "options": ["yes", "no"]}, "after": ["first"]})
    second = {"path": {"from": "steps.first.outputs.path"}, "seconds": seconds}
    steps.append({"id": "second", "skill": {"name": "note"}, "inputs": second, "after": [steps[-1]["id"]]})
    definition = {
        "name": name,
        "version": "2.0.0",
        "description": "Adds two lines to a file.",
        "inputs": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "seconds": {"type": "number"}, "wrong": {"type": "boolean"}},
            "required": ["path"],
        },
        "steps": steps,
        "outputs": {"path": {"from": "steps.second.outputs.path"}},
    }
    reply = server.http.post("v1/workflows", json={"definition": definition})
    assert reply.status_code in (200, 201), reply.text


def add(server, name, cron=YEARLY, **members):
    """Create a schedule."""
    body = {"name": name, "cron": cron, "target": {"skill": "note"}, **members}
    reply = server.http.post("v1/schedules", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()


def runs_of(server, name):
    """The runs of a schedule, the latest first."""
    return server.http.get("v1/runs", params={"schedule": name}).json()["runs"]


def over(server, name, count=1, timeout=60):
    """The runs of a schedule, when so many have ended."""

    def enough():
        found = [run for run in runs_of(server, name) if run["status"] in OVER]
        return found if len(found) >= count else None

    return eventually(enough, lambda: f"runs are {runs_of(server, name)}", timeout)


def outputs_of(server, run):
    """What a run returned."""
    return server.http.get(f"v1/runs/{run['id']}").json()["outputs"]


def lines(path):
    """How often the code ran."""
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """A gateway with two tenants."""
    tokens = tmp_path / "tenants.toml"
    tokens.write_text("[tenants.acme]\n[tenants.other]\n")
    own = Himalia(tmp_path / "gateway", "--config", str(tokens))
    yield own
    own.stop()


def token(server, tenant, scope="execute"):
    """A client with a token of a tenant, and the id of the token."""
    made = server.http.post("v1/tokens", json={"caller": "ada", "scope": scope, "tenant": tenant}).json()
    return made["id"], client_with(server, made["token"])


def test_a_due_time_is_a_run_and_its_result_is_shown(gateway, tmp_path):
    publish(gateway)
    path = tmp_path / "often"
    made = add(gateway, "often", OFTEN, inputs={"path": str(path)})
    assert (made["missed"], made["overlap"], made["time_zone"], made["last_run"]) == ("run_once", "skip", "UTC", None)
    run = over(gateway, "often")[-1]
    assert (run["status"], outputs_of(gateway, run), run["version"]) == ("succeeded", {"path": str(path)}, "1.0.0"), run
    assert (run["kind"], run["name"], run["origin"]) == ("skill", "note", {"kind": "schedule", "id": made["id"]}), run
    assert gateway.http.patch("v1/schedules/often", json={"enabled": False}).json()["next"] is None
    seen = runs_of(gateway, "often")
    assert len({run["created"] for run in seen}) == len(seen)
    shown = gateway.http.get(f"v1/runs/{run['id']}").json()
    assert shown["result"]["session"] == run["session"] and {name: shown[name] for name in run} == {**run, "digest": shown["digest"], "ended": shown["ended"]}
    (listed,) = gateway.http.get("v1/schedules").json()["schedules"]
    assert listed["last_run"]["created"] == seen[0]["created"] and not listed["enabled"]
    eventually(lambda: lines(path) == len(runs_of(gateway, "often")), lambda: f"{lines(path)} of {runs_of(gateway, 'often')}")


def test_a_run_now_reports_its_failure_and_overlaps_are_left_out(gateway, tmp_path):
    publish(gateway)
    path = tmp_path / "slow"
    add(gateway, "wrong", inputs={"path": str(path), "wrong": True})
    assert gateway.http.post("v1/schedules/wrong/runs", json={}).status_code == 202
    (failed,) = over(gateway, "wrong")
    assert (failed["status"], failed["error"]["message"], failed["asked_by"]) == ("failed", "ValueError: no such account", "operator")
    add(gateway, "slow", OFTEN, inputs={"path": str(path), "seconds": 25})
    skipped = eventually(
        lambda: [run for run in runs_of(gateway, "slow") if run["status"] == "skipped"], lambda: runs_of(gateway, "slow"), 60
    )
    assert skipped[0]["error"]["message"] == "an earlier run was in progress" and skipped[0]["execution"] is None
    assert gateway.http.delete("v1/schedules/slow").status_code == 204
    assert gateway.http.get("v1/schedules/slow").json()["code"] == "schedule_not_found"


def test_what_is_wrong_with_a_schedule_is_named(gateway):
    publish(gateway)
    publish_workflow(gateway)
    good = {"name": "a", "cron": YEARLY, "target": {"skill": "note"}, "inputs": {"path": "x"}}
    for changes, status, field in [
        ({"cron": "* * *"}, 400, "cron"),
        ({"cron": "* * * * * *"}, 400, "cron"),
        ({"cron": "0 0 30 2 *"}, 400, "cron"),
        ({"time_zone": "Mars/Olympus"}, 400, "time_zone"),
        ({"name": "A b"}, 400, "name"),
        ({"inputs": {}}, 400, "inputs"),
        ({"target": {}}, 400, "target"),
        ({"target": {"skill": "note", "workflow": "two"}}, 400, "target"),
        ({"target": {"workflow": "nobodys"}}, 404, None),
        ({"target": {"workflow": "two"}, "inputs": {}}, 400, "inputs"),
        ({"target": {"workflow": "two"}, "template": "python3"}, 400, "template"),
        ({"target": {"workflow": "two"}, "timeout_s": 5}, 400, "timeout_s"),
        ({"missed": "x"}, 400, "missed"),
        ({"target": {"skill": "nobodys"}}, 404, None),
        ({"template": "nobodys"}, 404, "template"),
    ]:
        reply = gateway.http.post("v1/schedules", json={**good, **changes})
        assert reply.status_code == status and (field is None or reply.json().get("field") == field), reply.text
    assert gateway.http.post("v1/schedules", json=good).status_code == 201
    assert gateway.http.post("v1/schedules", json=good).json()["code"] == "conflict"
    assert gateway.http.patch("v1/schedules/a", json={"inputs": {"path": 1}}).json()["field"] == "inputs"
    changed = gateway.http.patch("v1/schedules/a", json={"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}).json()
    assert changed["cron"] == "30 2 * * *" and changed["inputs"] == {"path": "x"}


def test_a_schedule_is_its_tenants_and_ends_with_the_token(gateway, tmp_path):
    mine, http = token(gateway, "acme")
    _, strange = token(gateway, "other")
    path = tmp_path / "acme"
    body = {"manifest": MANIFEST, "files": {"main.py": {"text": MAIN}}}
    assert http.post("v1/skills", json=body).status_code == 201
    new = {"name": "a", "cron": OFTEN, "target": {"skill": "note"}, "inputs": {"path": str(path)}}
    made = http.post("v1/schedules", json=new).json()
    assert (made["owner"], made["caller"]) == ("acme", "acme/ada")
    for where in ("v1/schedules/a", f"v1/schedules/{made['id']}"):
        for reply in (
            strange.get(where),
            strange.delete(where),
            strange.patch(where, json={"enabled": False}),
            strange.get("v1/runs", params={"schedule": where.rsplit("/", 1)[1]}),
            strange.post(f"{where}/runs", json={}),
        ):
            assert (reply.status_code, reply.json()["code"]) == (404, "schedule_not_found"), reply.text
    assert strange.get("v1/schedules").json()["schedules"] == []
    # The operator sees it, and does not change what it runs.
    (seen,) = gateway.http.get("v1/schedules").json()["schedules"]
    assert seen["id"] == made["id"]
    assert gateway.http.patch(f"v1/schedules/{made['id']}", json={"inputs": {"path": "x"}}).status_code == 403

    def ran():
        return [run for run in http.get("v1/runs?schedule=a").json()["runs"] if run["status"] == "succeeded"]

    assert eventually(ran, lambda: http.get("v1/runs?schedule=a").text, 60)
    session = gateway.http.get(f"v1/sessions/{ran()[0]['session']}").json()
    assert session["owner"] == "acme", session
    assert gateway.http.delete(f"v1/tokens/{mine}").status_code == 200
    stopped = eventually(
        lambda: (found := gateway.http.get(f"v1/schedules/{made['id']}").json())["stopped"] and found, "it continues", 60
    )
    assert "token" in stopped["stopped"] and stopped["next"] is None and not stopped["enabled"]
    # Another caller of the tenant takes it over.
    _, again = token(gateway, "acme")
    resumed = again.patch("v1/schedules/a", json={"enabled": True}).json()
    assert resumed["stopped"] is None and resumed["next"]


@pytest.mark.parametrize("wait", [0.0, 0.3, 0.6, 1.0, 1.6, 2.5])
def test_kill_9_at_any_time_repeats_no_run_and_loses_none(gateway, tmp_path, wait):
    publish(gateway)
    path = tmp_path / "killed"
    add(gateway, "killed", inputs={"path": str(path), "seconds": 1})
    run = gateway.http.post("v1/schedules/killed/runs", json={}).json()
    time.sleep(wait)
    gateway.kill()
    gateway.start()
    (done,) = over(gateway, "killed", timeout=120)
    assert (done["id"], done["status"]) == (run["id"], "succeeded"), done
    assert lines(path) == 1


def test_a_run_now_is_one_run_for_each_key_over_a_restart(gateway, tmp_path):
    publish(gateway)
    path = tmp_path / "asked"
    add(gateway, "closing", inputs={"path": str(path), "seconds": 5})

    def ask(body=None, key=None):
        headers = {"idempotency-key": key} if key else {}
        return gateway.http.post("v1/schedules/closing/runs", json=body or {}, headers=headers)

    first = ask(key="2026-10")
    assert first.status_code == 202 and "idempotency-replayed" not in first.headers, first.text
    # A response that was lost: the same request again, by the member too, and by the next gateway.
    again = ask({"idempotency_key": "2026-10"})
    assert (again.status_code, again.headers["idempotency-replayed"], again.json()["id"]) == (202, "true", first.json()["id"])
    gateway.kill()
    gateway.start()
    again = ask(key="2026-10")
    assert (again.headers["idempotency-replayed"], again.json()["id"]) == ("true", first.json()["id"]), again.text
    other = ask({"overlap": "allow"}, key="2026-10")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused"), other.text
    for refused in (ask(), ask({"overlap": "skip"}, key="2026-11")):
        assert refused.status_code == 409 and "an earlier run of this schedule is in progress" in refused.text, refused.text
    beside = ask({"overlap": "allow"}, key="2026-11")
    assert beside.status_code == 202 and beside.json()["id"] != first.json()["id"], beside.text
    done = over(gateway, "closing", 2, timeout=120)
    assert [run["status"] for run in done] == ["succeeded"] * 2 and lines(path) == 2
    assert ask(key="2026-10").json()["status"] == "succeeded"


def workflow_runs(server):
    """All runs of workflows, the latest first."""
    return server.http.get("v1/runs?kind=workflow").json()["runs"]


def test_a_schedule_runs_a_workflow_and_follows_it(gateway, tmp_path):
    publish(gateway)
    publish_workflow(gateway)
    path = tmp_path / "both"
    made = add(gateway, "both", OFTEN, target={"workflow": "two"}, inputs={"path": str(path)})
    assert made["target"] == {"workflow": "two"}
    run = over(gateway, "both")[-1]
    assert (run["status"], outputs_of(gateway, run), run["version"], run["execution"]) == ("succeeded", {"path": str(path)}, "2.0.0", None), run
    assert gateway.http.patch("v1/schedules/both", json={"enabled": False}).status_code == 200
    assert {one["id"] for one in workflow_runs(gateway)} == {one["id"] for one in runs_of(gateway, "both")}
    # What the first step raises ends both.
    add(gateway, "wrong", target={"workflow": "two", "version": "2.0.0"}, inputs={"path": str(path), "wrong": True})
    assert gateway.http.post("v1/schedules/wrong/runs", json={}).status_code == 202
    (failed,) = over(gateway, "wrong")
    error = {"code": "error", "message": "ValueError: no such account", "step": "first"}
    assert (failed["status"], failed["error"]) == ("failed", error), failed
    # The other kind of target, with what only that one has.
    changed = gateway.http.patch("v1/schedules/wrong", json={"target": {"skill": "note"}, "timeout_s": 60}).json()
    assert (changed["target"], changed["timeout_s"]) == ({"skill": "note"}, 60)
    changed = gateway.http.patch("v1/schedules/wrong", json={"target": {"workflow": "two"}}).json()
    assert (changed["target"], changed["timeout_s"]) == ({"workflow": "two"}, None)


def test_a_run_of_a_workflow_that_waits_for_a_person_is_in_progress(gateway, tmp_path):
    publish(gateway)
    publish_workflow(gateway, "signed", approval=True)
    path = tmp_path / "signed"
    add(gateway, "signed", OFTEN, target={"workflow": "signed"}, inputs={"path": str(path)})
    skipped = eventually(
        lambda: [run for run in runs_of(gateway, "signed") if run["status"] == "skipped"], lambda: runs_of(gateway, "signed"), 60
    )
    assert skipped[0]["error"] == {"code": "overlap", "message": "an earlier run was in progress"}
    assert gateway.http.get(f"v1/runs/{skipped[0]['id']}").json()["steps"] == []
    assert gateway.http.patch("v1/schedules/signed", json={"enabled": False}).status_code == 200
    (waits,) = [run for run in runs_of(gateway, "signed") if run["status"] == "running"]
    of_workflow = f"v1/runs/{waits['id']}"

    def asks():
        return next(one for one in gateway.http.get(of_workflow).json()["steps"] if one["id"] == "sign")["status"] == "waiting"

    eventually(asks, lambda: gateway.http.get(of_workflow).text, 60)
    # It is followed after a kill, and answered then.
    gateway.kill()
    gateway.start()
    (still,) = [run for run in runs_of(gateway, "signed") if run["status"] == "running"]
    assert still["id"] == waits["id"] and lines(path) == 1
    assert gateway.http.post(f"{of_workflow}/steps/sign/answer", json={"value": "yes"}).status_code == 200

    def done():
        return next(run for run in runs_of(gateway, "signed") if run["id"] == waits["id"])["status"] == "succeeded"

    eventually(done, lambda: runs_of(gateway, "signed"), 60)
    assert lines(path) == 2
    run = gateway.http.post("v1/schedules/signed/runs", json={}).json()["id"]

    def begun():
        return next(one for one in runs_of(gateway, "signed") if one["id"] == run)["status"] == "running"

    eventually(begun, lambda: runs_of(gateway, "signed"), 30)
    assert gateway.http.post(f"v1/runs/{run}/cancel", json={}).status_code == 200
    ended = eventually(lambda: [one for one in over(gateway, "signed") if one["id"] == run], lambda: runs_of(gateway, "signed"), 30)[0]
    assert (ended["status"], ended["error"]["message"]) == ("cancelled", "it was cancelled by operator")


@pytest.mark.parametrize("wait", [0.0, 0.3, 1.0, 2.5])
def test_kill_9_at_any_time_of_a_workflow_repeats_no_step_and_loses_none(gateway, tmp_path, wait):
    publish(gateway)
    publish_workflow(gateway)
    path = tmp_path / "killed"
    add(gateway, "killed", target={"workflow": "two"}, inputs={"path": str(path), "seconds": 1})
    run = gateway.http.post("v1/schedules/killed/runs", json={}).json()
    time.sleep(wait)
    gateway.kill()
    gateway.start()
    (done,) = over(gateway, "killed", timeout=120)
    assert (done["id"], done["status"]) == (run["id"], "succeeded"), done
    assert [one["id"] for one in workflow_runs(gateway)] == [done["id"]]
    assert lines(path) == 2


def test_a_due_time_that_was_missed_is_made_up_for_or_left_out(gateway, tmp_path):
    publish(gateway)
    made_up, left_out = tmp_path / "up", tmp_path / "out"
    for name, path, missed in [("up", made_up, "run_once"), ("out", left_out, "skip")]:
        add(gateway, name, "* * * * *", inputs={"path": str(path)}, missed=missed, enabled=False)
    gateway.kill()
    # As if it had been due two hours ago.
    database = gateway.directory / "data" / "himalia.db"
    two_hours_ago = int((time.time() - 7200) * 1e6) // 60_000_000 * 60_000_000
    # A time of the minute, of a schedule that is not due again soon.
    change = (
        f"UPDATE triggers SET next_micros = {two_hours_ago}, "
        "definition = json_set(definition, '$.enabled', json('true'), '$.times.cron', '0 0 1 1 *')"
    )
    with sqlite3.connect(database) as connection:
        connection.execute(change)
    connection.close()
    gateway.start()
    (up,), (out,) = over(gateway, "up"), over(gateway, "out")
    assert up["status"] == "succeeded" and lines(made_up) == 1, up
    assert (out["status"], out["execution"]) == ("missed", None) and lines(left_out) == 0, out


def test_the_command_line_has_all_of_it(gateway, tmp_path):
    publish(gateway)
    path = tmp_path / "cli"

    def himalia(*arguments):
        argv = command(gateway, "schedule", *arguments)
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)

    made = himalia("add", "nightly", "--skill", "note", "--cron", "0 2 * * *", "--time-zone", "Europe/Berlin", "--input", f"path={path}")
    assert made.returncode == 0 and "nightly" in made.stdout, made
    ran = himalia("run", "nightly", "--wait", "--json")
    assert ran.returncode == 0 and json.loads(ran.stdout)["outputs"] == {"path": str(path)}, ran
    # The row of the list follows the end of the run.
    eventually(lambda: "succeeded" in himalia("show", "nightly").stdout, "the list shows the end of the run", 30)
    assert "paused" in himalia("pause", "nightly").stdout
    assert "Europe/Berlin" in himalia("ls").stdout
    assert json.loads(himalia("resume", "nightly", "--json").stdout)["enabled"] is True
    publish_workflow(gateway)
    assert himalia("add", "both", "--workflow", "two", "--cron", YEARLY, "--input", f"path={path}").returncode == 0
    ran = json.loads(himalia("run", "both", "--wait", "--json").stdout)
    shown = himalia("show", "both").stdout
    assert "workflow two" in shown and ran["id"] in shown, shown
    assert himalia("add", "none", "--cron", YEARLY).returncode == 2
    assert himalia("add", "none", "--cron", YEARLY, "--skill", "note", "--workflow", "two").returncode == 2
    assert himalia("rm", "nightly").returncode == 0 and himalia("rm", "both").returncode == 0
    assert himalia("ls").stdout == "no schedules\n"
    assert himalia("show", "nightly").returncode == 1


def test_replicas_run_each_due_time_once_and_take_over_what_a_lost_one_ran(tmp_path, postgres, kernel_python):
    objects = f"file://{tmp_path / 'objects'}"
    replicas = Replicas(tmp_path, postgres, 3, "--object-store", objects, lease="3s", relay=True)
    try:
        path = tmp_path / "replicated"
        publish(replicas[0])
        # Without a key that they share, no secret is stored.
        refused = replicas[0].http.post("v1/webhooks", json={"name": "w", "target": {"skill": "note"}})
        assert (refused.status_code, refused.json()["code"]) == (501, "unsupported"), refused.text
        add(replicas[1], "often", OFTEN, inputs={"path": str(path), "seconds": 4}, overlap="allow")
        over(replicas[2], "often", 1, 90)
        running = eventually(
            lambda: [run for run in runs_of(replicas[0], "often") if run["status"] == "running"], "none runs", 60
        )[0]
        owner = replicas.sql(f"SELECT replica FROM himalia.kernels WHERE id = '{running['session']}'")[0]
        lost = next(one for one in replicas.all if one.name == owner)
        lost.kill()
        left = next(one for one in replicas.all if one is not lost)
        assert left.http.patch("v1/schedules/often", json={"enabled": False}).status_code == 200

        def settled():
            found = runs_of(left, "often")
            return found if all(run["status"] in OVER for run in found) else None

        done = eventually(settled, lambda: runs_of(left, "often"), 120)
        assert len({run["created"] for run in done}) == len(done)
        assert lines(path) <= len(done)
        assert sum(run["status"] == "succeeded" for run in done) <= lines(path)
        assert next(run for run in done if run["id"] == running["id"])["status"] == "succeeded", done
    finally:
        replicas.stop()


def test_replicas_begin_a_workflow_once_for_each_due_time_and_follow_it_when_one_is_lost(tmp_path, postgres, kernel_python):
    objects = f"file://{tmp_path / 'objects'}"
    # The one that is left takes over the sessions of steps too, which their workflow cannot follow at another replica.
    replicas = Replicas(tmp_path, postgres, 2, "--object-store", objects, lease="3s", relay=True)
    try:
        path = tmp_path / "replicated"
        publish(replicas[0])
        publish_workflow(replicas[0])
        inputs = {"path": str(path), "seconds": 2}
        add(replicas[1], "often", OFTEN, target={"workflow": "two"}, inputs=inputs, overlap="allow")
        over(replicas[1], "often", 1, 90)
        running = eventually(
            lambda: [run for run in runs_of(replicas[0], "often") if run["status"] == "running"], "none runs", 60
        )[0]
        its_epoch = f"SELECT epoch FROM himalia.workflow_runs WHERE id = '{running['id']}'"
        owner = replicas.sql(f"SELECT name FROM himalia.replicas WHERE epoch = ({its_epoch})")[0]
        lost = next(one for one in replicas.all if one.name == owner)
        lost.kill()
        left = next(one for one in replicas.all if one is not lost)
        assert left.http.patch("v1/schedules/often", json={"enabled": False}).status_code == 200

        def settled():
            found = runs_of(left, "often")
            return found if all(run["status"] in OVER for run in found) else None

        done = eventually(settled, lambda: runs_of(left, "often"), 120)
        assert sorted(one["id"] for one in workflow_runs(left)) == sorted(run["id"] for run in done)
        assert all(run["status"] == "succeeded" for run in done), done
        assert lines(path) == 2 * len(done)
    finally:
        replicas.stop()
