"""Requests that do not block the event loop, over connections that are kept."""

import asyncio
import os
import time
import weakref
from urllib.parse import urlsplit

from himalia_inside.api import answer_of, base
from himalia_inside.errors import lost, reason_of, unreachable

# The gateway answers 64 requests of a session at once, and closes new connections of a sandbox if there are more than 64 at once.
_MOST = 48
# The gateway closes a connection that is idle for a minute.
_IDLE_SECONDS = 30
_HEAD_BYTES = 64 * 1024

# By event loop. A fork has the connections of its parent, which it must not use.
_pools = weakref.WeakKeyDictionary()
_pid = os.getpid()


class _Pool:
    def __init__(self):
        self.turns = asyncio.Semaphore(_MOST)
        self.idle = []

    def take(self):
        while self.idle:
            since, reader, writer = self.idle.pop()
            if time.monotonic() - since < _IDLE_SECONDS and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None


def _pool():
    global _pid
    if _pid != os.getpid():
        _pools.clear()
        _pid = os.getpid()
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        _pools[loop] = _Pool()
    return _pools[loop]


async def ask(request):
    """Send a request once. Return (status, body)."""
    pool = _pool()
    async with pool.turns:
        connection = pool.take()
        if connection is None:
            _, host, port = base()
            try:
                connection = await asyncio.open_connection(host, port, limit=_HEAD_BYTES)
            except OSError as error:
                raise unreachable(error) from None
        reader, writer = connection
        keep = False
        try:
            writer.write(_head(request) + (request.body or b""))
            await writer.drain()
            status, body, keep = await _response(reader)
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            raise lost(request, reason_of(error)) from None
        finally:
            if keep:
                pool.idle.append((time.monotonic(), reader, writer))
            else:
                writer.close()
        return status, body


async def answer(request):
    """Send a request once. Return the value of its response."""
    return answer_of(request, await ask(request))


def _head(request):
    lines = [f"{request.method} {request.url} HTTP/1.1", f"Host: {urlsplit(request.url).netloc}"]
    if request.body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(request.body)}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def _response(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = headers.get("content-length")
    if length is None:
        body, keep = await reader.read(), False
    else:
        body, keep = await reader.readexactly(int(length)), headers.get("connection", "").lower() != "close"
    return int(first.split(" ", 2)[1]), body, keep
