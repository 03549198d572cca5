"""Uploads that are refused while their body is being sent: the client gets the reason, whatever the length."""

import json
import subprocess

import httpx
import pytest

MIB = 1 << 20
SIZES = (1 << 10, 100_000, 5 * MIB, 32 * MIB)

FETCH = """
const {url, token, sizes} = JSON.parse(process.argv[1]);
const found = [];
for (const size of sizes) {
  for (const chunked of [false, true]) {
    const bytes = new Uint8Array(size);
    const body = chunked ? new Blob([bytes]).stream() : bytes;
    const headers = {authorization: `Bearer ${token}`};
    const reply = await fetch(url, {method: "PUT", headers, body, duplex: "half"});
    found.push([reply.status, (await reply.json()).code]);
  }
}
console.log(JSON.stringify(found));
"""


@pytest.fixture(scope="module")
def path(shared):
    return shared.url + "v1/sessions/unknown/files/x.bin"


def pieces(size):
    while size > 0:
        yield b"x" * min(size, 50_000)
        size -= 50_000


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chunked", [False, True])
def test_httpx(shared, path, size, chunked):
    right = {"Authorization": f"Bearer {shared.token}"}
    with httpx.Client(trust_env=False, timeout=60) as client:
        for headers, status in ((right, 404), ({}, 401)):
            reply = client.put(path, headers=headers, content=pieces(size) if chunked else b"x" * size)
            assert reply.status_code == status and reply.json()["code"], reply.text
        if size > 8 * MIB:
            reply = client.post(shared.url + "v1/sessions", headers=right, content=pieces(size) if chunked else b"x" * size)
            assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large"), reply.text


def test_fetch_of_node(shared, path):
    asked = json.dumps({"url": path, "token": shared.token, "sizes": SIZES})
    command = ["node", "--input-type=module", "-e", FETCH, asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[404, "session_not_found"]] * 2 * len(SIZES)
