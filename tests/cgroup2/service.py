"""packaging/himalia.service as it is, run by inside.sh as root: installed, started, used, its certificate changed, stopped and started again.

A session lives through the stop: its kernel continues, and the next gateway takes it over.
"""

import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
ADDRESS = "127.0.0.1:8899"
TOKEN = "a-token-of-this-machine-alone-4567"
KERNEL = "/opt/tests/himalia-fake-kernel"
SPEC = {"argv": [KERNEL, "-f", "{connection_file}"], "display_name": "fake", "language": "script", "metadata": {"himalia": {"binds": [KERNEL]}}}
CONFIG = f"""
listen = "{ADDRESS}"
token_file = "token"
tls_cert = "cert.pem"
tls_key = "key.pem"
kernelspec_dirs = ["/opt/service-kernels"]
[templates.fake]
kernelspec = "fake"
provisioner = "local"
isolation = "namespaces"
memory = "256MiB"
pids = 50
"""
ETC = Path("/etc/himalia")


def systemctl(*arguments):
    """What it printed; it has to succeed."""
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True)
    if done.returncode:
        fail(f"systemctl {' '.join(arguments)}: {done.stderr}")
    return done.stdout.strip()


def fail(reason):
    """Ends the tests with the service's own log."""
    subprocess.run(["journalctl", "--no-pager", "--lines", "60", "--unit", "himalia"])
    sys.exit(reason)


def wait(condition, what):
    """Until it holds; the machine may be emulated."""
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            fail(f"never: {what}")
        time.sleep(0.2)


def certificate(name):
    """The gateway's certificate from now on: one that run.sh made, with its key."""
    shutil.copyfile(HERE / f"{name}.key", ETC / "key.pem")
    shutil.copyfile(HERE / f"{name}.pem", ETC / "cert.pem")


def call(method, path, body=None, name="first"):
    """A request to the gateway, whose certificate has to be this one; its reply's body."""
    request = urllib.request.Request(f"https://{ADDRESS}/{path}", method=method, data=body and json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {TOKEN}")
    request.add_header("Content-Type", "application/json")
    trust = ssl.create_default_context(cafile=str(HERE / f"{name}.pem"))
    try:
        with urllib.request.urlopen(request, timeout=120, context=trust) as reply:
            return json.loads(reply.read() or "null")
    except urllib.error.HTTPError as error:
        fail(f"{method} {path}: {error.code} {error.read().decode()}")


def run(session, code, name="first"):
    """What an execution printed."""
    done = call("POST", f"v1/sessions/{session}/executions", {"code": code}, name)
    assert done["status"] == "ok", done
    return done["text"].strip()


def install():
    """As the unit's first lines say."""
    for program in ("himalia", "himalia-shim", "himalia-jail"):
        shutil.copy(f"/opt/tests/{program}", "/usr/local/bin")
    # A kernelspec is bound into its sandbox, which no directory of /etc can be.
    kernels = Path("/opt/service-kernels/fake")
    kernels.mkdir(parents=True)
    (kernels / "kernel.json").write_text(json.dumps(SPEC))
    ETC.mkdir(mode=0o750)
    (ETC / "himalia.toml").write_text(CONFIG)
    for name in ("token", "key.pem"):
        (ETC / name).touch(mode=0o600)
    (ETC / "token").write_text(TOKEN)
    certificate("first")
    shutil.copyfile(HERE / "himalia.service", "/etc/systemd/system/himalia.service")
    checked = subprocess.run(["systemd-analyze", "verify", "/etc/systemd/system/himalia.service"], capture_output=True, text=True)
    # Older ones do not know all settings, and ignore those.
    told = [line for line in checked.stderr.splitlines() if "himalia.service" in line and "Unknown key" not in line]
    assert not told, told
    systemctl("daemon-reload")


def main():
    knows = int(systemctl("--version").split()[1]) >= 254
    install()
    # Type=notify: when this returns, the gateway is ready.
    systemctl("enable", "--now", "--quiet", "himalia")
    session = call("POST", "v1/sessions", {"template": "fake"})["id"]
    run(session, "set x 41")
    first = systemctl("show", "--property=MainPID", "--value", "himalia")
    certificate("second")
    systemctl("reload", "himalia")

    def has_changed():
        try:
            return call("GET", "v1/sessions", name="second") is not None
        except urllib.error.URLError:
            return False

    wait(has_changed, "the certificate has changed")
    assert systemctl("show", "--property=MainPID", "--value", "himalia") == first, "a reload is no restart"
    assert run(session, "get x", "second") == "41"
    if knows:
        systemctl("stop", "himalia")
        assert systemctl("show", "--property=Result", "--value", "himalia") == "success"
        systemctl("start", "himalia")
        state = lambda: call("GET", f"v1/sessions/{session}", name="second")["state"]
        wait(lambda: state() == "idle", "the kernel is taken over")
        assert run(session, "get x", "second") == "41"
    call("DELETE", f"v1/sessions/{session}", name="second")
    systemctl("disable", "--now", "--quiet", "himalia")
    assert systemctl("show", "--property=Result", "--value", "himalia") == "success"
    print("himalia.service: started, used, its certificate changed" + (", stopped and started again beside a session" if knows else ""))


main()
