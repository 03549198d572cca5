"""Requests to the gateway, and what is made of their responses."""

import base64
import json
import os
import sys
from typing import NamedTuple, Optional
from urllib.parse import quote, urlencode, urlsplit

from himalia_inside.errors import ToolUnavailable, error_of

_PROXY = "http://127.0.0.1:3128"


class Request(NamedTuple):
    """A request. `read` makes a value of the JSON of its response; `changes`: it may do something."""

    method: str
    url: str
    body: Optional[bytes]
    read: object
    changes: bool = False
    headers: dict = {}


class Texted(list):
    """A list that is shown as the text that the gateway made for models."""

    text = ""

    def __repr__(self):
        return self.text


class ToolInfo(dict):
    """All about a tool: `id`, `input_schema`, `example` and others. It is shown as text."""

    def __repr__(self):
        return self.get("text", "")


class File(NamedTuple):
    """A file of a reply."""

    mime_type: str
    data: bytes

    def __repr__(self):
        return f"File({self.mime_type!r}, {len(self.data)} bytes)"


class Reply(NamedTuple):
    """What a tool returned: its content as data, its files, the number of the call in the log of the session, and how long it took."""

    content: object
    files: list
    call: int
    duration_ms: int


def base():
    """The address of the gateway's door, and host and port of the proxy to it."""
    url = os.environ.get("HIMALIA_API")
    if not url:
        raise ToolUnavailable(
            "this session cannot call tools from code: it has none, or its sandbox has no door (HIMALIA_API is not set)",
            "tool_unavailable",
        )
    proxy = urlsplit(os.environ.get("http_proxy") or _PROXY)
    return url, proxy.hostname, proxy.port


def encoded(asked):
    """A body of JSON. Half of a surrogate pair, as in names of files that are not UTF-8, is U+FFFD in it: no reader of JSON takes it."""
    # What is no JSON is an error of the caller.
    text = json.dumps(asked, allow_nan=False, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _texted(member):
    def read(answer):
        made = Texted(answer[member])
        made.text = answer["text"]
        return made

    return read


def _reply(answer):
    files = [File(one["mime_type"], base64.b64decode(one["data"])) for one in answer.get("files", ())]
    return Reply(answer["content"], files, answer["call"], answer["duration_ms"])


def servers_request():
    return Request("GET", f"{base()[0]}/v1/servers", None, _texted("servers"))


def schemas_request(server, after):
    return Request("GET", f"{base()[0]}/v1/servers/{quote(server, safe='')}/tools?{urlencode({'after': after})}", None, dict)


def search_request(query, server, limit):
    asked = {"query": query, "limit": limit}
    if server is not None:
        asked["server"] = server
    return Request("GET", f"{base()[0]}/v1/tools?{urlencode(asked)}", None, _texted("tools"))


def info_request(tool):
    return Request("GET", f"{base()[0]}/v1/tools/{quote(tool, safe='')}", None, ToolInfo)


def call_request(tool, arguments, timeout, line=None, approval=None, key=None):
    asked = {"tool": tool, "arguments": {} if arguments is None else arguments, "line": line, "approval": approval, "approval_key": key}
    if timeout is not None:
        asked["timeout_s"] = timeout
    body = encoded(asked)
    return Request("POST", f"{base()[0]}/v1/calls", body, _reply, True)


def ask_request(text, options, timeout, key):
    asked = {"text": text, "options": list(options or ()), "timeout_s": timeout, "key": key}
    return Request("POST", f"{base()[0]}/v1/prompts", encoded(asked), dict)


def prompt_request(prompt, wait):
    return Request("GET", f"{base()[0]}/v1/prompts/{quote(prompt, safe='')}?wait_s={wait}", None, dict)


def calling_line():
    """The line of the cell from which this is called; None outside of cells."""
    # The module of the cells; that of the kernel's own program has the same name, and is not there any more.
    cells = vars(sys.modules["__main__"])
    frame, line = sys._getframe(1), None
    while frame is not None:
        if frame.f_globals is cells:
            line = frame.f_lineno
        frame = frame.f_back
    return line


def skills_request():
    return Request("GET", f"{base()[0]}/v1/skills", None, _texted("skills"))


def skill_request(name, version):
    asked = "" if version is None else "?" + urlencode({"version": version})
    return Request("GET", f"{base()[0]}/v1/skills/{quote(name, safe='')}{asked}", None, dict)


def run_request(name, version, inputs, timeout, key):
    asked = {"version": version, "inputs": inputs, "timeout_s": timeout, "key": key}
    body = encoded(asked)
    return Request("POST", f"{base()[0]}/v1/skills/{quote(name, safe='')}/runs", body, dict)


def run_state_request(run, wait):
    return Request("GET", f"{base()[0]}/v1/runs/{quote(run, safe='')}?wait_s={wait}", None, dict)


def stop_run_request(run):
    return Request("DELETE", f"{base()[0]}/v1/runs/{quote(run, safe='')}", None, dict)


def answer_of(request, response):
    """The value of a response, which is (status, body)."""
    status, body = response
    try:
        answer = json.loads(body)
    except ValueError:
        # The proxy refuses in plain text.
        answer = {"code": "internal", "message": body[:1000].decode(errors="replace").strip()}
        status = status if status >= 400 else 502
    if status >= 400:
        raise error_of(status, answer if isinstance(answer, dict) else {})
    return request.read(answer)


def value_of(reply):
    """What a plain call returns."""
    return reply if reply.files else reply.content
