"""Every list of the native API is read in pages: all of it, each thing once, whatever the size of a page."""

import base64
import hashlib

import pytest

PLOT = """
from IPython.display import Image, display
import struct, zlib
def png(width):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\\0" + bytes(3 * width) for _ in range(width))
    head = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
"""


def run(server, session, code, **more):
    """Run code and return its result."""
    reply = server.http.post(f"v1/sessions/{session}/executions", json={"code": code, **more}, timeout=120)
    assert reply.status_code in (200, 202), reply.text
    return reply.json()


def pages(server, path, member, /, **params):
    """All things of a list, page by page, with the sizes of the pages."""
    things, sizes, cursor = [], [], None
    while True:
        reply = server.http.get(path, params=params if cursor is None else {**params, "cursor": cursor})
        assert reply.status_code == 200, reply.text
        page = reply.json()
        things += page[member]
        sizes.append(len(page[member]))
        cursor = page["next"]
        if cursor is None:
            return things, sizes


@pytest.fixture(scope="module")
def full(shared):
    """A session that has several of everything."""
    reply = shared.http.post("v1/sessions", json={"labels": {"list": "full"}})
    assert reply.status_code == 201, reply.text
    session = reply.json()["id"]
    try:
        for number in range(5):
            run(shared, session, f"v{number} = {number}\nprint('x' * 10)")
        run(shared, session, "1/0")
        plots = "\n".join(f"display(Image(png({size})))" for size in (4, 5, 6))
        run(shared, session, PLOT + plots)
        for path in ("a.txt", "b/c.txt", "b/d/e.txt", "b.txt", "z.txt"):
            assert shared.http.put(f"v1/sessions/{session}/files/lists/{path}", content=b"text").status_code == 201
        assert shared.http.post(f"v1/sessions/{session}/kernels", json={}).status_code == 201
        yield session
    finally:
        shared.delete_session(session)


@pytest.mark.parametrize(
    ("path", "member", "key", "params", "count"),
    [
        ("{}/executions", "executions", "id", {}, 7),
        ("{}/executions", "executions", "id", {"order": "desc"}, 7),
        ("{}/executions", "executions", "id", {"status": ["ok"]}, 6),
        ("{}/executions", "executions", "id", {"status": ["error", "timeout"]}, 1),
        ("{}/executions", "executions", "id", {"caller": "operator"}, 7),
        ("{}/executions", "executions", "id", {"caller": "acme/eve"}, 0),
        ("{}/history", "history", "seq", {"order": "asc"}, 7),
        ("{}/history", "history", "seq", {"order": "desc"}, 7),
        ("{}/history", "history", "seq", {}, 7),
        ("{}/variables", "variables", "name", {}, None),
        ("{}/files", "entries", "path", {"path": "lists", "depth": 9}, 7),
        ("{}/files", "entries", "path", {"path": "lists/b", "depth": 9}, 3),
        ("{}/kernels", "kernels", "id", {}, 2),
        ("{}/artifacts", "artifacts", "artifact", {}, 3),
        ("{}/artifacts", "artifacts", "artifact", {"media_type": "image/png"}, 3),
        ("v1/sessions", "sessions", "id", {"label": "list=full"}, 1),
        ("v1/sessions", "sessions", "id", {"state": ["idle", "busy"]}, None),
        ("v1/templates", "templates", "name", {}, None),
        ("v1/pools", "pools", "template", {}, None),
        ("v1/tokens", "tokens", "id", {}, None),
    ],
)
def test_pages_have_everything_once(shared, full, path, member, key, params, count):
    path = path.format(f"v1/sessions/{full}")
    whole, _ = pages(shared, path, member, **params)
    assert count in (None, len(whole))
    for limit in (1, 2, 3):
        things, sizes = pages(shared, path, member, limit=limit, **params)
        found = [thing[key] for thing in things]
        expected = [thing[key] for thing in whole]
        if member == "history" and not params:
            # The latest ones, and then those before.
            assert sorted(found) == sorted(expected)
        else:
            assert found == expected
        assert all(size == limit for size in sizes[:-1]) and sizes[-1] <= limit
    backwards = params.get("order") == "desc"
    if member in ("executions", "history") and "order" in params:
        keys = [thing.get("seq") or int(thing["id"].rsplit("_", 1)[1]) for thing in whole]
        assert keys == sorted(keys, reverse=backwards)


def test_a_cursor_belongs_to_its_list(shared, full):
    cursor = shared.http.get(f"v1/sessions/{full}/executions", params={"limit": 1}).json()["next"]
    for path, params in [
        ("v1/sessions", {"cursor": cursor}),
        (f"v1/sessions/{full}/history", {"cursor": cursor}),
        (f"v1/sessions/{full}/files", {"cursor": "?"}),
        (f"v1/sessions/{full}/history", {"cursor": "aHg", "limit": 1}),
        (f"v1/sessions/{full}/executions", {"limit": 0}),
    ]:
        reply = shared.http.get(path, params=params)
        field = "cursor" if "cursor" in params else "limit"
        assert reply.status_code == 400 and reply.json()["field"] == field, reply.text
    files = shared.http.get(f"v1/sessions/{full}/files", params={"path": "lists/b", "limit": 1}).json()["next"]
    reply = shared.http.get(f"v1/sessions/{full}/files", params={"path": "lists/none", "cursor": files})
    assert reply.status_code == 400 and reply.json()["field"] == "cursor", reply.text


def test_output_ends_with_null(shared, full):
    done = run(shared, full, "print('abc' * 100)")
    path = f"v1/executions/{done['id']}/output"
    text, cursor = "", 0
    while cursor is not None:
        page = shared.http.get(path, params={"cursor": cursor, "limit": 70}).json()
        text, cursor = text + page["text"], page["next"]
    assert text == "abc" * 100 + "\n"


def test_images_stand_within_their_budget(shared, full):
    two = PLOT + "display(Image(png(40)))\ndisplay(Image(png(300)))"
    shown = run(shared, full, two, image_bytes=4 << 20)["outputs"]
    images = [output["data"]["image/png"] for output in shown]
    for image in images:
        content = base64.b64decode(image["base64"])
        assert len(content) == image["bytes"]
        assert image["artifact"] == "sha256:" + hashlib.sha256(content).hexdigest()
    again = run(shared, full, two, image_bytes=images[0]["bytes"])
    small, large = (output["data"]["image/png"] for output in again["outputs"])
    assert "base64" in small and "base64" not in large
    path = f"v1/executions/{again['id']}"
    plain = shared.http.get(path).json()["outputs"]
    assert all("base64" not in output["data"]["image/png"] for output in plain)
    later = shared.http.get(path, params={"image_bytes": 4 << 20}).json()["outputs"]
    assert all("base64" in output["data"]["image/png"] for output in later)
    refused = shared.http.get(path, params={"image_bytes": (4 << 20) + 1})
    assert refused.status_code == 400 and refused.json()["field"] == "image_bytes"


def test_a_start_with_a_key_is_done_once(shared):
    body = {"labels": {"a": "b"}, "idempotency_key": "a key"}
    first = shared.http.post("v1/sessions", json=body)
    assert first.status_code == 201 and first.json()["name"].startswith("key-"), first.text
    session = first.json()["id"]
    try:
        again = shared.http.post("v1/sessions", json={"labels": {"a": "b"}}, headers={"Idempotency-Key": "a key"})
        assert (again.status_code, again.json()["id"]) == (200, session), again.text
        assert again.headers["idempotency-replayed"] == "true"
        other = shared.http.post("v1/sessions", json={**body, "labels": {"a": "c"}})
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused"), other.text
        put = shared.http.put("v1/sessions/some-name", json=body)
        assert (put.status_code, put.json()["field"]) == (400, "idempotency_key"), put.text
    finally:
        shared.delete_session(session)
    # It names a session as long as that lives.
    later = shared.http.post("v1/sessions", json=body)
    assert later.status_code == 201 and later.json()["id"] != session
    shared.delete_session(later.json()["id"])


def test_templates_say_what_they_offer(shared):
    listed = shared.http.get("v1/templates").json()
    by_name = {template["name"]: template for template in listed["templates"]}
    python = by_name[listed["default"]]
    assert python["kernelspec"] == "python3" and python["language"] == "python"
    assert python["network"] == "none" and python["images"] == [] and python["problem"] is None
    assert set(python["limits"]) == set(python["max_limits"])
    assert "env" not in python and "argv" not in str(python)


def test_an_exception_is_no_error_of_the_connection(shared, session):
    begun = run(shared, session, "1/0", background=True)
    with shared.http.stream("GET", f"v1/executions/{begun['id']}/events") as events:
        text = events.read().decode()
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert "exception" in names and "error" not in names and names[-1] == "done"
    assert f'"execution_id":"{begun["id"]}"' in text


def test_limits_have_the_same_words_everywhere(shared, session):
    late = run(shared, session, "import time\ntime.sleep(60)", timeout_s=0.3)
    assert late["status"] == "timeout"
    old = run(shared, session, "import time\ntime.sleep(60)", timeout_s=0.3)
    assert old["status"] == "timeout"
    cut = run(shared, session, "print('x' * 1000)", text_chars=50)
    assert len(cut["text"]) < 300 and "output?cursor=" in cut["text"]
