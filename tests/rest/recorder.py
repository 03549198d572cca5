"""Sends the requests of the examples to a gateway, and keeps each request with its answer.

Ids, times, secrets and addresses become placeholders, so that a second run gives the same text as far as the answers are the same.
"""

import hashlib
import http.client
import json
import re
import time
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

DESCRIPTION = json.loads((Path(__file__).resolve().parents[2] / "docs" / "openapi.json").read_text())
OPERATIONS = {
    operation["operationId"]: (method.upper(), path)
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
    if "operationId" in operation
}
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
PLAIN_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
SECRET = re.compile(r"\b(whsec_|him_)[A-Za-z0-9+/=_-]+")
SECRETS = {"token", "secret", "answer_secret"}


class Recorder:
    """A gateway and the answers so far."""

    def __init__(self, url, token, addresses=()):
        self.url, self.token = urlsplit(url), token
        # Addresses of services, and the names that are shown.
        self.addresses = dict(addresses)
        self.answers, self.ids = {}, {}

    def send(self, method, path, body=None, headers=(), events=None):
        """A request; (status, headers, bytes). Of a stream, so many `events` are read, or those of 2 s."""
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=2 if events else 60)
        data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
        connection.request(method, path, data, {"Authorization": f"Bearer {self.token}", **dict(headers)})
        reply = connection.getresponse()
        read = b""
        try:
            while part := reply.read1(65536):
                read += part
                if events and read.count(b"\n\n") + read.count(b"}\n{") > events:
                    break
        except TimeoutError:
            pass
        connection.close()
        return reply.status, reply.headers, read

    def call(self, method, path, body=None, headers=()):
        """A request that is no example; the answer as JSON."""
        status, _, data = self.send(method, path, body, headers)
        assert status < 400, f"{method} {path}: {status} {data.decode()}"
        return json.loads(data) if data else None

    def until(self, ready, what):
        """What `ready` returns, once that is true."""
        for _ in range(600):
            if found := ready():
                return found
            time.sleep(0.1)
        raise AssertionError(f"not within a minute: {what}")

    def example(self, operation, body=None, *, query=None, headers=None, file=None, stream=None, statuses=(200, 201, 202, 204, 206, 207), refused_until=None, **places):
        """Sends the request of an operation and keeps it. With the status `refused_until` it is sent again. `places` are the parts of its path. The answer as JSON, or as bytes."""
        method, path = OPERATIONS[operation]
        for name, value in places.items():
            path = path.replace("{" + name + "}", quote(str(value), safe="/"))
        assert "{" not in path, path
        path += "?" + urlencode(query) if query else ""

        def accepted():
            answer = self.send(method, path, body, (headers or {}).items(), events=stream)
            return None if answer[0] == refused_until else answer

        status, answered, data = self.until(accepted, f"{operation} is accepted")
        assert status in statuses, f"{operation}: {status} {data.decode(errors='replace')}"
        kind = (answered.get("content-type") or "").split(";")[0]
        kept = {"method": method, "path": self.plain(path), "status": status}
        if headers:
            kept["headers"] = headers
        if file:
            kept["file"] = file
        elif body is not None:
            kept["body"] = self.plain(body)
        if kind:
            kept["type"] = kind
        is_json = kind == "application/json" or kind.endswith("+json")
        value = json.loads(data) if is_json else data
        if stream:
            kept |= {"stream": True, "answer": self.plain(first(data.decode(), stream))}
        elif is_json:
            kept["answer"] = self.plain(value)
        elif kind.startswith("text/"):
            kept["answer"] = self.plain(data.decode())
        assert operation not in self.answers, f"{operation} has an example"
        self.answers[operation] = kept
        return value

    def plain(self, value, name=None):
        """A value with placeholders."""
        if isinstance(value, dict):
            return {key: self.plain(member, key) for key, member in value.items()}
        if isinstance(value, list):
            return [self.plain(item, name) for item in value]
        if not isinstance(value, str):
            return value
        if name in SECRETS and value != "…":
            return "SECRET"
        for address, shown in self.addresses.items():
            value = value.replace(address, shown)
        value = UUID.sub(lambda found: self.number(found[0], "3f0c8a52-0000-4000-8000-{:012}"), value)
        value = PLAIN_UUID.sub(lambda found: self.number(found[0], "3f0c8a52000040008000{:012}"), value)
        value = DIGEST.sub(lambda found: self.number(found[0], None), value)
        value = TIME.sub("2026-11-28T12:00:00Z", value)
        return SECRET.sub(lambda found: found[1] + "SECRET", value)

    def number(self, found, form):
        """The placeholder of an id: the same one each time."""
        position = self.ids.setdefault(found, len(self.ids) + 1)
        return form.format(position) if form else hashlib.sha256(str(position).encode()).hexdigest()


def first(text, events):
    """The first events of a stream."""
    separator = "\n\n" if text.startswith((":", "id:", "event:", "data:")) else "\n"
    return separator.join(text.split(separator)[:events])


def shape(value):
    """The kinds of values in an answer. Null may stand for any value, and an empty list for any list."""
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None if value is None else "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def differences(old, new, at=""):
    """Where the shapes of two answers differ."""
    if old is None or new is None:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new:
                yield f"{at}.{name}: only {'now' if name in new else 'before'}"
            else:
                yield from differences(old[name], new[name], f"{at}.{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if old and new:
            yield from differences(old[0], new[0], f"{at}[0]")
    elif old != new:
        yield f"{at}: {new} and not {old}"
