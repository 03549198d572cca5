"""Answers questions about the user's variables on the control channel, also while a cell runs.

`himalia_variables_request` with `{}` asks for the list, with `{"page": {"offset", "limit"}}` for a part of it; with `{"name", "page": {"offset", "limit"}, "sort": {"by",
"descending"}, "filter": {"column", "op", "value"} or a list of those, "format": "json" or "arrow"}` for one variable.
The reply's content is `{"status": "ok", ...}` or `{"status": "error", "ename", "evalue"}`; error names are `ValueError`,
`NameError`, `Unsupported`, `Unstable`, `Timeout` and `KernelBusy`. Neither leaves a trace in history, `_`, `Out` or counts.

The work is done by a thread that exists only for it, one request at a time, so that the control channel continues. What it
reads may change under it: a failed attempt is repeated. It cannot be killed, so one that hangs is answered for when its
time has passed, and requests that come until it ends are refused or time out.
"""

import os
import threading
import time
from collections import deque

from himalia_kernel import namespace, pages, previews
from himalia_kernel.cells import Unsupported
from himalia_kernel.queries import Query
from himalia_kernel.refusal import error

# Seconds after which rows become short, seconds until a request is answered in any case, requests
# that wait, attempts at reading what changes.
_LIST_S = 1.0
TIMEOUT_S = 10.0
_WAITING = 16
_ATTEMPTS = 3


class Desk:
    """The requests of one kernel. All of its state belongs to the control thread."""

    def __init__(self, kernel):
        self._kernel = kernel
        self._start_over()

    def _start_over(self):
        self._pid = os.getpid()
        self._waiting = deque()
        self._thread = None

    def handle(self, content, answer):
        """Answer one request, sooner or later: `answer(content, buffers)`."""
        if self._pid != os.getpid():
            # A branch: the requests are its parent's.
            self._start_over()
        try:
            query = Query.parse(content)
        except ValueError as problem:
            answer(error("ValueError", problem))
            return
        if len(self._waiting) >= _WAITING:
            answer(error("KernelBusy", "other requests about variables have not ended"))
            return
        request = _Request(query, answer)
        self._kernel.control_thread.io_loop.call_later(TIMEOUT_S, request.late)
        self._waiting.append(request)
        self._next()

    def _next(self):
        if self._thread is None and self._waiting:
            request = self._waiting.popleft()
            self._thread = threading.Thread(target=self._work, args=(request,), name="himalia-variables", daemon=True)
            self._thread.start()

    def _work(self, request):
        loop = self._kernel.control_thread.io_loop
        reply, buffers = {}, []
        try:
            if not request.answered:
                reply, buffers = look(self._kernel.shell, request.query)
        except BaseException as problem:
            reply, buffers = error(type(problem).__name__, problem), []
        loop.add_callback(self._done, request, reply, buffers)

    def _done(self, request, reply, buffers):
        self._thread.join()
        self._thread = None
        request.reply(reply, buffers)
        self._next()


class _Request:
    """A request that is answered once."""

    def __init__(self, query, answer):
        self.query = query
        self.answered = False
        self._answer = answer

    def late(self):
        self.reply(error("Timeout", f"the variable could not be read within {TIMEOUT_S:.0f} s"), [])

    def reply(self, content, buffers):
        if not self.answered:
            self.answered = True
            self._answer(content, buffers)


def look(shell, query):
    """Return `(content of the reply, buffers)`."""
    for attempt in range(_ATTEMPTS):
        try:
            return _list(shell, query) if query.name is None else _detail(shell, query)
        except Unsupported as problem:
            return error("Unsupported", problem), []
        except (ValueError, KeyError, IndexError, AttributeError, RuntimeError, TypeError) as problem:
            # Also what a library says about an object that is half changed.
            if attempt == _ATTEMPTS - 1:
                known = type(problem) is ValueError
                return error("ValueError" if known else "Unstable", problem), []
    return None


def _list(shell, query):
    found = namespace.variables(shell)
    deadline = time.monotonic() + _LIST_S
    rows, late = [], False
    end = query.offset + query.limit
    for name, value in list(found.items())[query.offset : end]:
        late = late or time.monotonic() > deadline
        rows.append(previews.brief(name, value) if late else previews.describe(name, value))
    truncated = late or len(found) > end
    return {"status": "ok", "variables": rows, "total": len(found), "truncated": truncated, "offset": query.offset}, []


def _detail(shell, query):
    found = namespace.variables(shell)
    if query.name not in found:
        return error("NameError", f"there is no variable {query.name!r}"), []
    value = found[query.name]
    fields, buffers = pages.of(value, query)
    return {"status": "ok", "variable": previews.describe(query.name, value), **fields}, buffers
