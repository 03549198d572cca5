"""A gateway as a systemd unit with `Delegate=yes`, run by inside.sh as root: `gateway.py USER`.

Its sandboxes are limited by groups. Where systemd knows `DelegateSubgroup=` (254), the unit is restarted while a sandbox lives: the
sandbox continues, and the next one is limited as well.
"""

import json
import os
import pwd
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

USER = sys.argv[1]
HOME = Path(f"/opt/gateway-{USER}")
UNIT = f"gateway-{USER}.service"
GROUP = Path("/sys/fs/cgroup/system.slice") / UNIT
ADDRESS = "127.0.0.1:8888"
TOKEN = "a-token-of-this-machine-alone-0123"
KERNEL = "/opt/tests/himalia-fake-kernel"
SPEC = {"argv": [KERNEL, "-f", "{connection_file}"], "display_name": "fake", "language": "script", "metadata": {"himalia": {"binds": [KERNEL]}}}
TEMPLATE = """
[templates.fake]
kernelspec = "fake"
provisioner = "local"
isolation = "namespaces"
memory = "256MiB"
pids = 50
cpu = 1
"""


def systemctl(*arguments):
    """What it printed; it has to succeed."""
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["journalctl", "--no-pager", "--lines", "40", "--unit", UNIT])
        sys.exit(f"systemctl {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def call(method, path, body=None):
    """A request to the gateway; its reply's body."""
    request = urllib.request.Request(f"http://{ADDRESS}/{path}", method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {TOKEN}")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.loads(reply.read() or "null")
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def wait(condition, what):
    """Until it holds; the machine may be emulated."""
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            subprocess.run(["journalctl", "--no-pager", "--lines", "40", "--unit", UNIT])
            sys.exit(f"never: {what}")
        time.sleep(0.2)


def answers():
    """Whether the gateway does."""
    try:
        urllib.request.urlopen(f"http://{ADDRESS}/v1/sessions", timeout=10)
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        return False
    return True


def run(session, code):
    """What an execution printed."""
    done = call("POST", f"v1/sessions/{session}/executions", {"code": code})
    assert done["status"] == "ok", done
    return done["text"]


def limited_session():
    """A session whose limits are enforced by groups."""
    made = call("POST", "v1/sessions", {"template": "fake"})
    enforced = {name: made["limits"][name]["enforcement"] for name in ("memory_bytes", "pids", "cpu_millis")}
    assert set(enforced.values()) == {"cgroup"}, enforced
    return made["id"]


def gateway_is_in_its_group():
    """And in none above, which could not limit the sandboxes then."""
    main = systemctl("show", "--property=MainPID", "--value", UNIT).strip()
    assert (GROUP / "himalia-gateway/cgroup.procs").read_text().split() == [main]
    assert (GROUP / "cgroup.procs").read_text() == ""
    return main


def write_unit(subgroup):
    """The unit's file and what the gateway reads."""
    (HOME / "kernels/fake").mkdir(parents=True)
    (HOME / "kernels/fake/kernel.json").write_text(json.dumps(SPEC))
    (HOME / "himalia.toml").write_text(TEMPLATE)
    (HOME / "token").write_text(TOKEN)
    (HOME / "token").chmod(0o600)
    owner = pwd.getpwnam(USER)
    for path in (HOME, HOME / "token"):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    places = f"--data-dir {HOME}/data --run-dir {HOME}/run --token-file {HOME}/token --config {HOME}/himalia.toml --kernelspec-dir {HOME}/kernels"
    Path("/run/systemd/system", UNIT).write_text(
        f"[Service]\nUser={USER}\nDelegate=yes\n{subgroup}\nKillMode=process\n"
        f"ExecStart=/opt/tests/himalia serve --listen {ADDRESS} {places}\n"
    )
    systemctl("daemon-reload")


def main():
    knows = int(systemctl("--version").split()[1]) >= 254
    write_unit("DelegateSubgroup=himalia-gateway" if knows else "")
    systemctl("start", UNIT)
    wait(answers, "the gateway answers")
    first = gateway_is_in_its_group()
    session = limited_session()
    run(session, "set x 41")
    if knows:
        systemctl("restart", UNIT)
        wait(answers, "the gateway answers after a restart")
        assert gateway_is_in_its_group() != first
        wait(lambda: call("GET", f"v1/sessions/{session}")["state"] == "idle", "the kernel is taken over")
        assert run(session, "get x").strip() == "41"
        other = limited_session()
        assert run(other, "print 42").strip() == "42"
        call("DELETE", f"v1/sessions/{other}")
    call("DELETE", f"v1/sessions/{session}")
    systemctl("stop", UNIT)
    print(f"gateway as {USER}: sandboxes are limited by groups" + (", also after a restart of the unit beside one" if knows else ""))


main()
