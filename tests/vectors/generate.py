"""Writes python.json: messages as jupyter_client and jupyter_server frame them. See README.md."""

import hashlib
import json
import sys

from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session, json_packer
from jupyter_server.services.kernels.connection.base import serialize_binary_message, serialize_msg_to_ws_v1

DATE = "2026-01-02T03:04:05.678901Z"
KEY = b"9f2b1c7e-4a6d3e8f"


def header(msg_type, number, **more):
    return {
        "msg_id": f"3c1f-{number}",
        "msg_type": msg_type,
        "username": "user",
        "session": "b7e0-session",
        "date": DATE,
        "version": "5.4",
        **more,
    }


REQUEST = header("execute_request", 1)
DEEP = json.loads("[" * 100 + "]" * 100)

# name, channel, identities, header, parent header, metadata, content, buffers
CASES = [
    ("execute_request", "shell", [], REQUEST, {}, {}, {"code": "x = 1\n", "silent": False, "user_expressions": {}}, []),
    ("execute_reply", "shell", [b"\x00k\x80\xe4\x11"], header("execute_reply", 2), REQUEST, {"started": DATE},
     {"status": "ok", "execution_count": 1, "payload": []}, []),
    ("stream with topic", "iopub", [b"stream.stdout"], header("stream", 3), REQUEST, {},
     {"name": "stdout", "text": "h\u00e9llo \U0001f600 \u2028 \"quoted\" \\ \x1b[31m\x00"}, []),
    ("iopub_welcome", "iopub", [], header("iopub_welcome", 4), {}, {}, {"subscription": ""}, []),
    ("subshell request", "shell", [], header("execute_request", 5, subshell_id="sub-1"), {}, {}, {"code": ""}, []),
    ("two identities", "stdin", [b"router", b"client"], header("input_request", 6), REQUEST, {},
     {"prompt": "name? ", "password": False}, []),
    ("shutdown_request", "control", [], header("shutdown_request", 7), {}, {}, {"restart": True}, []),
    ("comm_msg with buffers", "iopub", [b"comm-1"], header("comm_msg", 8), REQUEST, {"version": "2.1.0"},
     {"comm_id": "c", "data": {"method": "update", "buffer_paths": [["value"]]}}, [b"\x00\x01\xfe\xff", b"", b"<IDS|MSG>"]),
    ("one empty buffer", "shell", [], header("comm_msg", 9), {}, {}, {"comm_id": "c", "data": {}}, [b""]),
    ("numbers", "iopub", [b"t"], header("display_data", 10), REQUEST, {},
     {"data": {"big": 2**70, "small": -1.5e-7, "tenth": 0.1, "one": 1.0, "neg0": -0.0}, "metadata": {}}, []),
    ("deep content", "iopub", [b"t"], header("display_data", 11), REQUEST, {}, {"data": {"deep": DEEP}}, []),
    # As surrogateescape packs it: a byte that is not UTF-8.
    ("invalid utf-8", "iopub", [b"t"], header("stream", 12), REQUEST, {}, {"name": "stdout", "text": "a\udcffb"}, []),
]

# Content as kernels of other languages write it, byte for byte: it must not be written anew.
RAW = [
    ("spaces and order", b'{ "text" : "x",\n\t"name":"stdout" }'),
    ("escaped lone surrogate", b'{"name":"stdout","text":"\\ud800"}'),
    ("escaped everything", b'{"name":"stdout","text":"\\u0041\\/\\u00e9\\ud83d\\ude00"}'),
    ("float text", b'{"a":1.50,"b":1E+2,"c":100000000000000000000000.0}'),
]

SCHEMES = ["hmac-md5", "hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"]


def session(scheme, key):
    made = Session(key=key, signature_scheme=scheme, check_pid=False)
    assert made.digest_mod is getattr(hashlib, scheme.removeprefix("hmac-"))
    return made


def legacy(parts, buffers, channel):
    """As ZMQChannelsWebsocketConnection sends a kernel's message to a client without subprotocol."""
    unsigned = Session(key=b"", check_pid=False)
    msg = unsigned.deserialize([b"", *parts, *buffers], content=True, copy=True)
    msg["channel"] = channel
    if msg["buffers"]:
        return None, serialize_binary_message(msg).hex()
    return json.dumps(msg, default=json_default), None


def vector(name, channel, identities, parts, buffers, scheme="hmac-sha256", key=KEY):
    signature = session(scheme, key).sign(parts)
    frames = [*identities, b"<IDS|MSG>", signature, *parts, *buffers]
    text, binary = legacy(parts, buffers, channel)
    return {
        "name": name,
        "channel": channel,
        "scheme": scheme,
        "key": key.hex(),
        "identities": [i.hex() for i in identities],
        "parts": [p.hex() for p in parts],
        "buffers": [b.hex() for b in buffers],
        "zmq": [f.hex() for f in frames],
        "v1": serialize_msg_to_ws_v1([*parts, *buffers], channel).hex(),
        "legacy_text": text,
        "legacy_binary": binary,
    }


def through_session(identities, head, parent, metadata, content):
    """The whole of Session.serialize, to be sure that frames above are what the reference sends."""
    msg = {"header": head, "parent_header": parent, "metadata": metadata, "content": content}
    return session("hmac-sha256", KEY).serialize(msg, ident=list(identities) or None)


def main():
    vectors = []
    for name, channel, identities, head, parent, metadata, content, buffers in CASES:
        parts = [json_packer(p) for p in (head, parent, metadata, content)]
        made = vector(name, channel, identities, parts, buffers)
        reference = [f.hex() for f in through_session(identities, head, parent, metadata, content)]
        assert made["zmq"][: len(reference)] == reference, name
        vectors.append(made)
    for name, content in RAW:
        parts = [json_packer(header("stream", 20)), json_packer(REQUEST), b"{}", content]
        vectors.append(vector(name, "iopub", [b"stream"], parts, []))
    parts = [json_packer(p) for p in (REQUEST, {}, {}, {"code": "1"})]
    vectors += [vector(f"signed with {scheme}", "shell", [], parts, [], scheme=scheme) for scheme in SCHEMES]
    vectors.append(vector("long key", "shell", [], parts, [], key=b"k" * 300))
    vectors.append(vector("no key", "shell", [], parts, [], key=b""))
    json.dump(vectors, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")


main()
