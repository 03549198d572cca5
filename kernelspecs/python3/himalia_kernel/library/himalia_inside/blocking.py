"""Requests that block the thread, over one connection for each thread."""

import http.client
import os
import threading
import time

from himalia_inside.api import answer_of, base
from himalia_inside.errors import lost, reason_of, unreachable

_IDLE_SECONDS = 30

_kept = threading.local()


def _take():
    # A fork has the connections of its parent, which it must not use.
    connection, pid, used = getattr(_kept, "connection", (None, 0, 0))
    _kept.connection = (None, 0, 0)
    if connection is not None and pid == os.getpid() and time.monotonic() - used < _IDLE_SECONDS:
        return connection
    _, host, port = base()
    connection = http.client.HTTPConnection(host, port)
    try:
        connection.connect()
    except OSError as error:
        raise unreachable(error) from None
    return connection


def ask(request, timeout=None):
    """Send a request once. Return (status, body). `timeout` is in seconds."""
    connection = _take()
    connection.sock.settimeout(timeout)
    headers = {"Content-Type": "application/json", **request.headers} if request.body is not None else {}
    keep = False
    try:
        connection.request(request.method, request.url, request.body, headers)
        response = connection.getresponse()
        if not response.headers:
            # A head that ended within its first line is one for this module.
            raise EOFError
        body = response.read()
        keep = not response.will_close
    except (OSError, EOFError, http.client.HTTPException) as error:
        raise lost(request, reason_of(error)) from None
    finally:
        if keep:
            _kept.connection = (connection, os.getpid(), time.monotonic())
        else:
            connection.close()
    return response.status, body


def answer(request, timeout=None):
    """Send a request once. Return the value of its response."""
    return answer_of(request, ask(request, timeout))
