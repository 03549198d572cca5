"""Bad input of every kind: the documented status, one line of reason, no traceback, no token; the gateway continues."""

import json
import struct
import uuid

import pytest
from channels import SUBPROTOCOL, Channels, encode_v1
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

UNKNOWN = str(uuid.UUID(int=7))


@pytest.fixture(scope="module")
def kernel_id(shared):
    """One kernel for all of these: what is wrong with a client must not reach it."""
    kernel = shared.start_kernel()
    yield kernel
    shared.delete_kernel(kernel)


REST = [
    ("POST", "api/kernels", b"{", 400),
    ("POST", "api/kernels", b"[1]", 400),
    ("POST", "api/kernels", b'"x"', 400),
    ("POST", "api/kernels", b'{"name": 5}', 400),
    ("POST", "api/kernels", b'{"name": "no-such-kernel"}', 400),
    ("POST", "api/kernels", b'{"name": "../../etc"}', 400),
    ("POST", "api/kernels", b'{"env": []}', 400),
    ("POST", "api/kernels", b'{"env": {"A": 1}}', 400),
    ("POST", "api/kernels", b'{"env": {"A=B": "x"}}', 400),
    ("POST", "api/kernels", b'{"env": {"A": "x\\u0000y"}}', 400),
    ("POST", "api/kernels", b'{"kernel_id": "no-uuid"}', 400),
    ("POST", "api/kernels", b"\xff\xfe", 400),
    ("POST", "api/kernels", b'{"name": "' + b"x" * 100_000 + b'"}', 400),
    ("GET", f"api/kernels/{UNKNOWN}", None, 404),
    ("DELETE", f"api/kernels/{UNKNOWN}", None, 404),
    ("POST", f"api/kernels/{UNKNOWN}/interrupt", None, 404),
    ("POST", f"api/kernels/{UNKNOWN}/restart", None, 404),
    ("GET", "api/kernels/zzz", None, 404),
    ("GET", "api/kernels/..%2f..%2fetc", None, 404),
    ("GET", "api/kernelspecs/no-such-kernel", None, 404),
    ("GET", "kernelspecs/python3/..%2f..%2f..%2fetc%2fpasswd", None, 404),
    ("GET", "kernelspecs/python3/kernel.json%00", None, 404),
    ("POST", "api/sessions", b"", 400),
    ("POST", "api/sessions", b"{}", 400),
    ("POST", "api/sessions", b'{"path": "a", "type": "notebook", "kernel": {"name": "no-such-kernel"}}', 501),
    ("GET", f"api/sessions/{UNKNOWN}", None, 404),
    ("PATCH", f"api/sessions/{UNKNOWN}", b"{}", 404),
    ("DELETE", f"api/sessions/{UNKNOWN}", None, 404),
    ("GET", f"v1/sessions/{UNKNOWN}/events", None, 404),
    ("GET", "v1/sessions/no-uuid/events", None, 404),
    ("GET", "nothing/here", None, 404),
    ("PUT", "api/kernels", b"{}", 405),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), REST, ids=lambda value: str(value)[:40])
def test_rest(shared, method, path, body, status):
    reply = shared.http.request(method, path, content=body)
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"].startswith(("application/json", "application/problem+json"))
    answer = reply.json()
    message = answer.get("message", answer.get("detail"))
    assert message and "\n" not in message and len(message) < 1000
    assert not answer.get("traceback")
    assert shared.token not in reply.text


def frame(**changes):
    """A valid kernel_info_request as its five parts, some of them replaced."""
    message = {
        "header": {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "kernel_info_request",
            "session": "bad",
            "username": "",
            "date": "2026-01-02T03:04:05.678901Z",
            "version": "5.4",
        },
        "parent_header": {},
        "metadata": {},
        "content": {},
    }
    return encode_v1(changes.pop("channel", "shell"), {**message, **changes}, changes.pop("buffers", ()))


def with_offsets(change):
    """A valid frame whose offsets lie."""
    valid = frame()
    (count,) = struct.unpack_from("<Q", valid)
    offsets = list(struct.unpack_from(f"<{count}Q", valid, 8))
    count = change(offsets) or count
    return struct.pack(f"<{len(offsets) + 1}Q", count, *offsets) + valid[8 * (len(offsets) + 1) :]


def lie(index, value):
    """Sets one offset."""

    def change(offsets):
        offsets[index] = value

    return change


V1 = {
    "empty": (b"", 1007),
    "short": (b"\x01\x02\x03", 1007),
    "text message": ("{}", 1003),
    "count of 2^63": (struct.pack("<Q", 2**63) + bytes(100), 1009),
    "count of 2^61, whose size overflows": (struct.pack("<Q", 2**61) + bytes(100), 1009),
    "no parts": (struct.pack("<Q", 0), 1007),
    "first offset in the table": (with_offsets(lie(0, 8)), 1007),
    "offset beyond the end": (with_offsets(lie(3, 2**40)), 1007),
    "offset of 2^64 - 1": (with_offsets(lie(5, 2**64 - 1)), 1007),
    "offsets that go back": (with_offsets(lie(2, 60)), 1007),
    "last offset short of the end": (with_offsets(lambda o: lie(5, o[5] - 1)(o)), 1007),
    "more offsets than parts": (with_offsets(lambda o: 4000), 1009),
    "header that is no JSON": (frame().replace(b'{"msg_id"', b'["msg_id"'), 1007),
    "header that is no object": (frame(header=[]), 1007),
    "header without msg_id": (frame(header={"msg_type": "x", "session": "s"}), 1007),
    "unknown channel": (frame(channel="iopud"), 1007),
    "the channel that only kernels send on": (frame(channel="iopub"), 1007),
}
# Messages that are dropped without closing the connection, as jupyter_server does.
DROPPED = {"unknown channel", "the channel that only kernels send on"}


@pytest.mark.parametrize("name", V1)
def test_a_bad_v1_frame(shared, kernel_id, name):
    bad, code = V1[name]
    with Channels(shared, kernel_id) as client:
        client.socket.send(bad)
        try:
            done = client.request("kernel_info_request", {})
            assert name in DROPPED
            assert done.content["status"] == "ok"
        except ConnectionClosed as closed:
            assert closed.rcvd.code == code
            assert closed.rcvd.reason and shared.token not in closed.rcvd.reason
    with Channels(shared, kernel_id) as client:
        assert client.run("1").content["status"] == "ok"


LEGACY = {
    "no JSON": ("{", 1007),
    "no object": ("[]", 1007),
    "without header": ("{}", 1007),
    "header that is no object": ('{"header": 5, "content": {}, "channel": "shell"}', 1007),
    "deep nesting": ('{"header": ' + "[" * 100_000 + "]" * 100_000 + "}", 1009),
    "binary, no offsets": (b"\x00\x00\x00\x00", 1007),
    "binary, count of 2^32 - 1": (b"\xff" * 64, 1009),
    "binary, offset beyond the end": (struct.pack(">3I", 2, 12, 2**31) + b"{}", 1007),
    "binary, offsets that go back": (struct.pack(">3I", 2, 14, 12) + b"{}xx", 1007),
}


@pytest.mark.parametrize("name", LEGACY)
def test_a_bad_legacy_frame(shared, kernel_id, name):
    bad, code = LEGACY[name]
    with Channels(shared, kernel_id, "legacy") as client:
        client.socket.send(bad)
        with pytest.raises(ConnectionClosed) as closed:
            client.until(lambda m: False, 10)
        assert closed.value.rcvd.code == code
    with Channels(shared, kernel_id, "legacy") as client:
        assert client.run("1").content["status"] == "ok"


def test_a_message_over_the_size_limit_closes_with_1009(shared, kernel_id):
    with Channels(shared, kernel_id) as client:
        with pytest.raises(ConnectionClosed) as closed:
            client.socket.send(frame(content={"code": "#" * (65 * 1024 * 1024)}))
            client.until(lambda m: False, 20)
        assert closed.value.rcvd.code == 1009
    with Channels(shared, kernel_id) as client:
        assert client.run("1").content["status"] == "ok"


def test_a_message_of_12_mib_is_run(shared, kernel_id):
    with Channels(shared, kernel_id) as client:
        assert client.run("n = len('" + "x" * (12 * 1024 * 1024) + "')").content["status"] == "ok"
        assert client.run("print(n)").text() == f"{12 * 1024 * 1024}\n"


@pytest.mark.parametrize("kernel", [UNKNOWN, "zzz", "..%2f.."])
def test_a_websocket_to_no_kernel_is_refused_before_the_upgrade(shared, kernel):
    with pytest.raises(InvalidStatus) as refused:
        connect(
            shared.websocket_url(f"api/kernels/{kernel}/channels"),
            additional_headers={"Authorization": f"token {shared.token}"},
            subprotocols=[SUBPROTOCOL],
            proxy=None,
        )
    assert refused.value.response.status_code == 404


def test_a_websocket_from_another_origin_is_refused(shared, kernel_id):
    with pytest.raises(InvalidStatus) as refused:
        connect(
            shared.websocket_url(f"api/kernels/{kernel_id}/channels"),
            additional_headers={"Authorization": f"token {shared.token}"},
            origin="https://elsewhere.example",
            proxy=None,
        )
    assert refused.value.response.status_code == 403


def test_a_plain_get_of_the_channels_is_no_crash(shared, kernel_id):
    reply = shared.http.get(f"api/kernels/{kernel_id}/channels")
    assert reply.status_code in (400, 426)
    json.loads(reply.text)


def test_content_of_any_kind_goes_through_untouched(shared, kernel_id):
    """Only headers are the gateway's business: what the kernel cannot use is the kernel's to refuse."""
    with Channels(shared, kernel_id) as client:
        client.socket.send(frame(content="no object"))
        assert client.run("1").content["status"] == "ok"
