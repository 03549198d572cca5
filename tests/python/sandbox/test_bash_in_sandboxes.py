"""Scripts in Bash are in the sandbox of their session, and under its limits."""

import json


def run(gateway, session, code, **more):
    """Run code and return its result."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_script_is_where_its_kernel_is(gateway, session):
    spaces = "for kind in mnt net pid ipc; do readlink /proc/self/ns/$kind; done"
    script = run(gateway, session["id"], f"{spaces}; pwd; id -u; echo kept > note", language="bash")
    assert (script["status"], script["exit_code"]) == ("ok", 0), script
    look = "[*(os.readlink(f'/proc/self/ns/{kind}') for kind in ('mnt', 'net', 'pid', 'ipc')), os.getcwd(), str(os.getuid())]"
    kernel = run(gateway, session["id"], f"import json, os\nprint(json.dumps({look}), open('note').read())")
    assert kernel["text"] == f"{json.dumps(script['text'].splitlines())} kept\n\n"


def test_the_limit_of_processes_is_that_of_the_session(gateway, session):
    neighbour = gateway.session()["id"]
    bomb = "for n in $(seq 500); do sleep 1000 & done; wait"
    ended = run(gateway, session["id"], bomb, language="bash", timeout_s=5)
    if gateway.level == "gvisor":
        # There the limit ends the whole sandbox, whatever language reaches it.
        assert ended["status"] == "kernel_died" and ended["death"]["incarnation"] == 1, ended
    else:
        assert ended["status"] in ("timeout", "error") and "Resource temporarily unavailable" in ended["text"], ended
        left = run(gateway, session["id"], "ls /proc | grep -c '^[0-9]'", language="bash", expect_incarnation=1)
        assert ended["status"] == "error" or int(left["text"]) < 50, left
    other = run(gateway, neighbour, "echo here", language="bash", expect_incarnation=1)
    assert (other["status"], other["text"]) == ("ok", "here\n"), other
    gateway.end(neighbour)


def test_an_interrupt_and_a_timeout_end_what_a_script_started(gateway, session):
    late = run(gateway, session["id"], "sleep 1000 & sleep 1000", language="bash", timeout_s=0.5)
    assert late["status"] == "timeout", late
    left = run(gateway, session["id"], "cat /proc/[0-9]*/comm | grep -cx sleep || true", language="bash", expect_incarnation=1)
    assert left["status"] == "ok" and left["text"] == "0\n", left
