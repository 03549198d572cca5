"""The events of an execution, which survive lost connections."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx

from ..errors import ApiError, ConnectionFailed, InvalidResponse, StreamEnded
from ..models import Event
from .transport import ATTEMPTS, LONGEST_PAUSE_S, Transport, event_of, object_of

_NDJSON = {"Accept": "application/x-ndjson"}
_SSE = {"Accept": "text/event-stream"}


class _Attempts:
    """The attempts of a stream without an event in between."""

    def __init__(self) -> None:
        self.failures = 0
        self.broken = ""

    def survive(self, error: Exception) -> bool:
        """Whether another attempt may do better."""
        if isinstance(error, ApiError) and not error.retryable:
            return False
        self.broken = type(error).__name__ if isinstance(error, httpx.RequestError) else f"{error}"
        return True

    def pause(self, what: str) -> None:
        """Waits before the next attempt. After the last one it raises.

        Not to be called in a handler of an error: frames of the HTTP library hold the headers of the request.
        """
        self.failures += 1
        if self.failures >= ATTEMPTS:
            raise ConnectionFailed(f"{what} broke off: {self.broken}")
        time.sleep(min(0.1 * 2**self.failures, LONGEST_PAUSE_S))


def events(transport: Transport, start: tuple[str, dict[str, Any]] | None, execution_id: str | None, after: int) -> Iterator[Event]:
    """Each event after the number `after` once, the last one being `done`.

    `start` is the address and the body of a request that starts the execution and has an idempotency key; without it, `execution_id` is
    followed.
    """
    attempts = _Attempts()
    while True:
        try:
            if execution_id is None and start is not None:
                opened = transport.stream("POST", start[0], body=start[1], headers=_NDJSON)
            else:
                opened = transport.stream("GET", f"/v1/executions/{execution_id}/events", params={"after": after}, headers=_NDJSON)
            with opened as response:
                execution_id = execution_id or response.headers.get("Location", "").rpartition("/")[2]
                if not execution_id:
                    raise InvalidResponse("the response names no execution, so it is not from a gateway of Himalia")
                for line in response.iter_lines():
                    raw = event_of(line)
                    if raw is None or raw["event"] == "keep_alive":
                        continue
                    if raw["event"] == "end":
                        if raw.get("reason") != "draining":
                            raise StreamEnded(execution_id, raw.get("reason") or "unknown")
                        break
                    event = Event(raw["event"], raw.get("seq"), raw)
                    after = event.seq if event.seq is not None else after
                    attempts.failures = 0
                    yield event
                    if event.event == "done":
                        return
        except (ApiError, ConnectionFailed, httpx.RequestError) as error:
            if not attempts.survive(error):
                raise
        attempts.pause(f"the events of {execution_id or 'a new execution'}")


def session_events(transport: Transport, session: str, after: int | None) -> Iterator[Event]:
    """The events of all executions of a session, each once, until the session ends."""
    attempts = _Attempts()
    position, name = after, ""
    while True:
        try:
            params = None if position is None else {"after": position}
            opened = transport.stream("GET", f"/v1/sessions/{session}/executions/events", params=params, headers=_SSE)
            with opened as response:
                for line in response.iter_lines():
                    # The gateway writes each event as `id`, `event` and one line of `data`. A position alone has no data.
                    field, _, value = line.partition(": ")
                    if field == "id":
                        position, attempts.failures = int(value), 0
                    elif field == "event":
                        name = value
                    elif field == "data" and name == "end":
                        if object_of(value, "an event").get("reason") == "kernel_gone":
                            return
                    elif field == "data":
                        yield Event(name, position, object_of(value, "an event"))
        except (ApiError, ConnectionFailed, httpx.RequestError) as error:
            if not attempts.survive(error):
                raise
        attempts.pause(f"the events of session {session}")
