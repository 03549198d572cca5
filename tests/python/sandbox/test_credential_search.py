"""No key is in a sandbox that uses it, or in what its gateway writes. Each search finds what a test has put there for it."""

import base64
import hashlib
import json
import os
import re
import secrets
import subprocess

import pytest
from channels import Channels
from keys import AT, PLACEHOLDER, PYTHON, World, asks, client, says  # noqa: F401 (fixtures)
from levels import ENGINE
from processes import having_argument
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

# What code of a session finds of the form of the tests' keys, as hashes: it must not have a key to look for.
SEARCH = """
import base64, glob, hashlib, json, os, re, secrets, stat, subprocess
FORM = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])|YWRhO[A-Za-z0-9+/]{54}=")

def seen(content, found):
    for match in FORM.finditer(content):
        text = match[0]
        found.add(hashlib.sha256(text).hexdigest())
        if text.endswith(b"="):
            found.add(hashlib.sha256(base64.b64decode(text)[4:]).hexdigest())

def content_of(path, found, most=1 << 22):
    try:
        with open(path, "rb") as file:
            while content := file.read(most):
                seen(content, found)
        return True
    except OSError:
        return False

def of_environments():
    found = set()
    seen("\\0".join(os.environ.values()).encode(), found)
    read = [content_of(path, found) for pid in glob.glob("/proc/[0-9]*") for path in (pid + "/environ", pid + "/cmdline")]
    return sum(read), found

def of_files():
    # Not in what is the same for all sessions: the system, and read-only mounts.
    found, read, own = set(), 0, os.stat("/").st_dev
    system = ("/proc", "/sys", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt")
    for top, folders, names in os.walk("/"):
        if os.stat(top).st_dev != own and os.statvfs(top).f_flag & os.ST_RDONLY:
            folders[:] = []
            continue
        folders[:] = [name for name in folders if not os.path.join(top, name).startswith(system)]
        for name in names:
            path = os.path.join(top, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode) and os.lstat(path).st_size < 1 << 28:
                    read += content_of(path, found)
            except OSError:
                pass
    return read, found

def of_memory():
    found, read = set(), 0
    for maps in glob.glob("/proc/[0-9]*/maps"):
        pid = maps.split("/")[2]
        try:
            lines = open(maps).read().splitlines()
            memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        except OSError:
            continue
        with memory:
            for line in lines:
                area, rights, *_ = line.split()
                if not rights.startswith("r") or "[v" in line:
                    continue
                start, end = (int(part, 16) for part in area.split("-"))
                try:
                    while start < end:
                        memory.seek(start)
                        content = memory.read(min(end - start, 1 << 22))
                        if not content:
                            break
                        seen(content, found)
                        read += len(content)
                        start += len(content)
                except (OSError, OverflowError, ValueError):
                    pass
    return read, found

def planted():
    text = secrets.token_hex(20)
    return text, hashlib.sha256(text.encode()).hexdigest()
"""

LOOK = """
in_variable, variable = planted()
in_file, file = planted()
in_memory, memory = planted()
in_password, password = planted()
encoded = base64.b64encode(b"ada:" + in_password.encode())
child = subprocess.Popen(["sleep", "600"], env={"PLANTED": in_variable})
# Its environment is there a moment after its start.
while not open(f"/proc/{child.pid}/environ").read(): pass
with open("/session/planted", "w") as out: print(in_file, file=out)
result = {}
for name, look in (("environments", of_environments), ("files", of_files), ("memory", of_memory)):
    read, found = look()
    result[name] = [read, sorted(found)]
child.kill(); child.wait()
print("RESULT" + json.dumps({"planted": {"environments": [variable], "files": [file], "memory": [memory, password, variable]}, **result}))
"""


@pytest.fixture(scope="module", params=AT)
def world(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("search"), request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def session(world):
    """A session that has used each of the keys by both ways, and was answered with them."""
    made = world.gateway.session("keys")["id"]
    with Channels(world.gateway, made) as client:
        for way in ("internal", "intercepted"):
            for name in PYTHON:
                assert "*" * len(world.secret) in asks(client, world.url("api", way) + "/", name)
            says(client, f"import os, requests; r = requests.get({world.url('user', way)!r}, auth=('ada', os.environ['USER_KEY'])); print(r.text)")
            assert world.keeper.last()["authorization"].startswith("Basic ")
            aws = f"headers={{'authorization': 'AWS4-HMAC-SHA256 Credential=' + os.environ['AWS_ACCESS_KEY_ID'] + '/20260101/eu-central-1/sqs/aws4_request, SignedHeaders=host, Signature=00'}}"
            says(client, f"a = requests.post({world.url('aws', way)!r} + '/queue', data='Action=x', {aws}); print(a.text)")
            assert "Credential=AKIDTEST/" in world.keeper.last()["authorization"]
        # The placeholder is no secret: the log of the session may have it.
        assert says(client, "print(os.environ['API_KEY'])") == PLACEHOLDER.format("api")
    yield made
    world.gateway.end(made)


def keys_of(world):
    """All forms of the keys that requests had."""
    basic = base64.b64encode(f"ada:{world.password}".encode()).decode()
    return [text.encode() for text in (world.secret, world.password, world.key, basic)]


def test_code_finds_no_key_in_environments_files_or_memory(world, client):
    says(client, SEARCH)
    text = says(client, LOOK)
    result = json.loads(text.partition("RESULT")[2])
    hidden = {hashlib.sha256(key).hexdigest() for key in keys_of(world)}
    for place in ("environments", "files", "memory"):
        read, found = result[place]
        assert set(result["planted"][place]) <= set(found), (place, read, "what was planted is found")
        assert not hidden & set(found), (place, "a key is found")
    assert result["memory"][0] > 10 << 20 and result["files"][0] > 10, {place: result[place][0] for place in result if place != "planted"}


def memory_has(pid, needles):
    """Which of these bytes are in the memory of a process."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            area, rights, offset, *_, name = [*line.split()[:5], line.split()[-1]]
            if not rights.startswith("r") or name.startswith("[v"):
                continue
            start, end = (int(part, 16) for part in area.split("-"))
            try:
                pieces = shared(pid, start, end, int(offset, 16)) if rights.endswith("s") else private(memory, start, end)
                for content in pieces:
                    found |= {needle for needle in needles if needle in content}
            except OSError:
                continue
    return found


def private(memory, start, end):
    while start < end:
        memory.seek(start)
        content = memory.read(min(end - start, 1 << 24))
        if not content:
            return
        yield content
        start += len(content)


def shared(pid, start, end, offset):
    """Shared memory, from its file without the holes: who reads these as memory fills them, and the sandbox would pay for it."""
    with open(f"/proc/{pid}/map_files/{start:x}-{end:x}", "rb", buffering=0) as file:
        at, last = offset, offset + end - start
        while at < last:
            # Fails behind the last data.
            at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            hole = min(last, os.lseek(file.fileno(), at, os.SEEK_HOLE))
            while at < hole and (content := os.pread(file.fileno(), min(hole - at, 1 << 24), at)):
                yield content
                at += len(content)


def processes_of(world, session, client):
    """The processes of the sandbox of a session, as the host has them."""
    if world.level == "gvisor":
        # Its processes are none of the host: their memory is that of gVisor's own.
        label = f"label=himalia.label.kernel={session}"
        listed = subprocess.run(["docker", "--host", ENGINE, "ps", "-q", "--no-trunc", "--filter", label], check=True, capture_output=True, text=True)
        assert listed.stdout.strip(), f"the sandbox runs: {world.gateway.show(session)}"
        return having_argument(listed.stdout.strip())
    mark = "1000." + str(secrets.randbits(60))
    says(client, f"import subprocess; p = subprocess.Popen(['sleep', '{mark[:8]}' + '{mark[8:]}'])")
    found = eventually(lambda: having_argument(mark), "the process of the session is found")
    space = _space(found[0])
    inside = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _space(entry) == space]
    says(client, "p.kill(); p.wait()")
    return [pid for pid in inside if _space(pid) == space and pid != found[0]]


def _space(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def test_the_host_finds_no_key_in_the_memory_of_the_sandbox(world, session, client):
    inside = processes_of(world, session, client)
    assert len(inside) >= 2, inside
    keys = keys_of(world)
    placeholder = PLACEHOLDER.format("api").encode()
    seen = set().union(*(memory_has(pid, [*keys, placeholder]) for pid in inside))
    assert seen == {placeholder}, "the search finds what is there, and no key"


def test_no_key_is_in_what_the_gateway_writes_or_says(world, session, client):
    keys = keys_of(world)
    placeholder = PLACEHOLDER.format("api").encode()
    listed = world.gateway.http.get("v1/credentials").text
    assert "AKIDTEST" in listed and not any(key.decode() in listed for key in keys), listed
    with world.gateway.http.stream("GET", f"v1/sessions/{session}/events", params={"after": 0}, timeout=60) as reply:
        events = ""
        for line in reply.iter_lines():
            events += line
            if '"credential"' in line and "aws" in line:
                break
    assert not any(key.decode() in events for key in keys)
    written = {}
    data = world.gateway.directory / "data"
    for file in [world.gateway.log, *data.rglob("*")]:
        if file.is_file():
            content = file.read_bytes()
            written[str(file.relative_to(world.gateway.directory))] = {text for text in [*keys, placeholder, b"AKIDTEST"] if text in content}
    leaked = {name: found for name, found in written.items() if found & set(keys)}
    assert not leaked, leaked
    # The store, and the log of the session, are in a form in which the search would find a key.
    assert any(b"AKIDTEST" in found for name, found in written.items() if "himalia.db" in name), written
    assert any(placeholder in found for name, found in written.items() if "kernels" in name), written
    log = world.gateway.log.read_text()
    assert " TRACE " in log and re.search(r"set_credential.*credential api", log), log[-3000:]
