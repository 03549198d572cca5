"""Sessions in pods of a real cluster: their start, what they see, how they end, and what survives the gateway."""

import json
import os
import secrets
import subprocess

import pytest
from events import follow
from hosts import Host, Names
from keeper import Keeper, authority
from pods import Gateway
from waiting import eventually

pytestmark = pytest.mark.timeout(300)


def text(result):
    """What a cell printed."""
    return json.dumps(result)


def test_a_session_runs_staged_analysis_with_its_variables_in_memory(gateway):
    session = gateway.session()
    assert gateway.run(session, "import statistics; data = [1, 2, 3, 4]")["status"] == "ok"
    assert "2.5" in text(gateway.run(session, "mean = statistics.mean(data); print(mean)"))
    assert "'mean': 2.5" in text(gateway.run(session, "print({'mean': mean})"))
    shown = gateway.of(session)
    assert shown["isolation"] == "container"
    gateway.delete_session(session)


def test_a_pod_is_confined_as_seen_from_inside(gateway):
    session = gateway.session()
    probe = """
import os, json, pathlib
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
def writes(path):
    try:
        pathlib.Path(path).write_text('x'); return True
    except OSError:
        return False
print(json.dumps({
    'uid': os.getuid(), 'caps': status['CapEff'].strip(), 'new_privileges': status['NoNewPrivs'].strip(),
    'seccomp': status['Seccomp'].strip(), 'root': writes('/x'), 'work': writes('/session/x'), 'tmp': writes('/tmp/x'),
    'token': os.path.exists('/var/run/secrets/kubernetes.io/serviceaccount/token'),
    'keys': os.listdir('/himalia/gw'), 'secret': os.path.exists('/himalia/secret'),
    'cluster': [name for name in os.environ if name.startswith('KUBERNETES_')],
}))
"""
    result = gateway.run(session, probe)
    seen = json.loads(result["text"].strip().splitlines()[-1]) if "text" in result else text(result)
    expected = {"uid": 1000, "caps": "0000000000000000", "new_privileges": "1", "seccomp": "2", "root": False,
                "work": True, "tmp": True, "token": False, "keys": [], "secret": False, "cluster": []}
    assert seen == expected, result
    gateway.delete_session(session)


def test_a_kernel_that_needs_too_much_memory_dies_of_it(gateway):
    session = gateway.session()
    result = gateway.run(session, "x = bytearray(10**9)", 90)
    assert "oom" in text(result), result
    gateway.delete_session(session)


def test_what_a_pod_uses_is_measured(gateway):
    session = gateway.session()
    used_before = gateway.http.get("v1/usage").json()["cpu_ms"]["used"]
    gateway.run(session, "import time; end = time.process_time() + 3; data = bytearray(50_000_000)\nwhile time.process_time() < end: pass")

    def used():
        reply = gateway.http.get(f"v1/sessions/{session}/usage")
        return reply.json() if reply.status_code == 200 else {"cpu_ms": 0, "memory_bytes": 0}

    eventually(lambda: used()["cpu_ms"] >= 3000 and used()["memory_bytes"] > 50_000_000, "the shim has measured it", 60)
    eventually(lambda: gateway.http.get("v1/usage").json()["cpu_ms"]["used"] >= used_before + 3000, "it counts", 60)
    gateway.delete_session(session)


def test_a_pod_that_fills_its_disk_is_evicted_and_the_session_goes_on_in_another(gateway):
    session = gateway.session()
    gateway.run(session, "kept = 1")
    gateway.submit(session, "open('/tmp/big', 'wb').write(bytes(60 << 20)); import time; time.sleep(600)")
    eventually(lambda: "evicted" in text(gateway.of(session)) + gateway.log.read_text(), "it is evicted", 180)
    assert "NameError" in text(gateway.run(session, "kept", 120))
    gateway.delete_session(session)


def test_kill_9_of_the_gateway_in_the_middle_of_a_cell_loses_nothing(tmp_path):
    gateway = Gateway(tmp_path)
    session = gateway.session()
    gateway.run(session, "kept = 41")
    cell = gateway.submit(session, "import time\nfor n in range(60): print(n, flush=True); time.sleep(0.1)\nkept + 1")
    eventually(lambda: "20" in text(gateway.http.get(f"v1/executions/{cell}").json()), "it is in the middle")
    gateway.kill()
    gateway.start()
    result = gateway.wait(cell)
    assert result["status"] == "ok", result
    assert "42" in text(result) and "59" in text(result)
    assert len(gateway.pods()) == 1
    gateway.stop()


def test_what_no_node_can_give_is_said(tmp_path):
    gateway = Gateway(tmp_path, kubernetes={"schedule_deadline": "3s"})
    reply = gateway.http.post("v1/sessions", json={"template": "python3", "limits": {"cpu_millis": 400}})
    assert reply.status_code == 201, reply.text
    gateway.stop()
    gateway = Gateway(tmp_path / "b", kubernetes={"schedule_deadline": "3s"}, **{"templates.huge": {"kernelspec": "python3", "memory": "4TiB"}})
    reply = gateway.http.post("v1/sessions", json={"template": "huge"})
    assert reply.status_code == 503 and ("unschedulable" in reply.text or "quota" in reply.text), reply.text
    assert reply.json()["retryable"] and int(reply.headers["Retry-After"]) > 0
    gateway.stop()


def test_an_image_that_is_not_there_is_said(tmp_path):
    gateway = Gateway(tmp_path, kubernetes={"image": "localhost/none:1", "pull_policy": "Never"})
    reply = gateway.http.post("v1/sessions", json={"template": "python3"})
    assert reply.status_code >= 400 and "image" in reply.text, reply.text
    gateway.stop()


def test_a_pool_holds_pods_ready(tmp_path):
    gateway = Gateway(tmp_path, **{"templates.warm": {"kernelspec": "python3"}, "templates.warm.pool": {"size": 1, "max": 1}})
    eventually(lambda: gateway.http.get("v1/status").json() and len(gateway.pods()) == 1, "a pod is made in advance", 120)
    eventually(lambda: any(p["status"].get("phase") == "Running" for p in gateway.pods()), "it runs", 60)

    def claimed():
        session = gateway.session(template="warm")
        path = gateway.of(session).get("started_by")
        assert "2" in text(gateway.run(session, "print(1 + 1)"))
        gateway.delete_session(session)
        return path == "pool"

    eventually(claimed, "a session starts from the pool", 120)
    gateway.stop()


def test_the_doctor_says_whether_policies_are_enforced(gateway):
    done = subprocess.run(
        [os.environ["HIMALIA_BIN"], "doctor", "--kubernetes", "--json", "--config", str(gateway.config)],
        stdout=subprocess.PIPE, text=True, timeout=240, check=False,
    )
    report = json.loads(done.stdout)
    isolation = [one for one in report["findings"] if one["topic"] == "isolation"][0]
    if os.environ.get("HIMALIA_TEST_POLICIES") == "enforced":
        assert isolation["level"] == "ok", report
    else:
        # The network of the tests' own cluster enforces none.
        assert "NOT isolated" in isolation["text"] and not report["ok"] and done.returncode == 1, report
    permissions = [one for one in report["findings"] if one["topic"] == "permissions"]
    assert permissions[0]["level"] == "ok", report


class WithNames(Gateway):
    """A gateway that knows names of its own."""

    names = None

    def command(self):
        """In a mount namespace with these names."""
        return self.names.around(super().command())


FETCH = """
import concurrent.futures, urllib.error, urllib.request
def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason}"
    except OSError as error:
        return f"{type(error).__name__} {error}"
"""


def test_a_pod_reaches_through_the_gateway_what_its_list_has(tmp_path):
    host = Host("0.0.0.0", pages={"/": b"hello", "/large": b"x" * (8 << 20)})
    WithNames.names = Names(tmp_path)
    for name in ("web.test", "other.test"):
        WithNames.names[name] = ["127.0.0.2"]
    template = {"kernelspec": "python3", "network": "allow", "allow": [f"web.test:{host.port}"]}
    gateway = WithNames(tmp_path, f"--private-address=127.0.0.2:{host.port}", **{"templates.reach": template})
    session = gateway.session(template="reach")
    print_of = lambda code: gateway.run(session, f"{FETCH}\nprint({code})")["text"].strip()
    url = f"http://web.test:{host.port}"
    assert print_of(f"fetch('{url}/')") == "hello"
    # More data than any buffer holds; and since the gateway dials a pod, many new connections at once.
    assert print_of(f"len(fetch('{url}/large'))") == str(8 << 20)
    assert print_of(f"set(concurrent.futures.ThreadPoolExecutor(40).map(fetch, ['{url}/'] * 120))") == "{'hello'}"
    assert print_of(f"fetch('http://other.test:{host.port}/')").startswith("403 egress_denied: other.test")
    records = follow(gateway, session, 0, lambda event: event["event"] == "network" and event["detail"]["host"] == "other.test")
    reached = [one["detail"] for one in records if one["event"] == "network" and one["detail"]["outcome"] == "ended"]
    assert any(one["host"] == "web.test" and one["received_bytes"] > 8 << 20 for one in reached), reached
    # As long as the gateway is away, so is the network; then it is as it was.
    gateway.kill()
    gateway.start()
    eventually(lambda: print_of(f"fetch('{url}/')") == "hello", "the network is back", 60)
    assert print_of(f"fetch('http://other.test:{host.port}/')").startswith("403 egress_denied: other.test")
    assert gateway.http.patch(f"v1/sessions/{session}", json={"network": "none"}).json()["allow"] == []
    assert "egress_denied" in print_of(f"fetch('{url}/')")
    gateway.delete_session(session)
    gateway.stop()
    host.close()


ASK = """
import urllib.error, urllib.request
def ask(url, key):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": "Bearer " + key}), timeout=60) as reply:
            return reply.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason} {error.read().decode()}"
    except OSError as error:
        return f"{type(error).__name__} {error}"
"""


def test_a_pod_uses_a_key_that_it_does_not_have(tmp_path):
    ca, certificate = authority(tmp_path, "api.test")
    keeper = Keeper(certificate)
    WithNames.names = Names(tmp_path)
    WithNames.names["api.test"] = ["127.0.0.2"]
    place = f"api.test:{keeper.port}"
    template = {"kernelspec": "python3", "network": "allow", "allow": [place], "credentials": ["api"], "intercept": True}
    gateway = WithNames(tmp_path, f"--private-address=127.0.0.2:{keeper.port}", env={"SSL_CERT_FILE": ca}, **{"templates.keys": template})
    secret = secrets.token_hex(20)
    reply = gateway.http.put("v1/credentials/api", json={"kind": "bearer", "hosts": [place], "value": secret})
    assert reply.status_code == 200, reply.text
    session = gateway.session(template="keys")
    print_of = lambda url: gateway.run(session, f"import os\n{ASK}\nprint(ask({url!r}, os.environ['API_KEY']))")["text"].strip()
    for url in ("http://api.credential.internal/one", f"https://{place}/two"):
        said = print_of(url)
        assert keeper.requests[-1][1] == url[-4:] and keeper.last()["authorization"] == f"Bearer {secret}", said
        assert "Bearer " + "*" * len(secret) in said and secret not in said, said
    gateway.kill()
    gateway.start()
    eventually(lambda: "Bearer *" in print_of("http://api.credential.internal/"), "the network is back", 60)
    assert gateway.http.delete("v1/credentials/api").status_code == 204
    assert "credential_denied: the credential api does not exist, or was revoked" in print_of("http://api.credential.internal/")
    gateway.delete_session(session)
    gateway.stop()
    keeper.close()
