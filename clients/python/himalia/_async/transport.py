"""Requests to a gateway: authentication, repetition, and errors as exceptions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from .._target import Secret, Target
from ..errors import ApiError, ConfigurationError, ConnectionFailed, HimaliaError, InvalidResponse, of_problem

# Attempts of one request, and the longest pause between two of them, in seconds.
ATTEMPTS = 5
LONGEST_PAUSE_S = 5.0
# What one request waits for the gateway to start or execute something, in seconds: its maximum for executions is 600.
WAIT_S = 60.0
# How long code is interrupted at the end of its time, until it is known that it ignores that.
STOP_S = 10.0
# What a response may take beyond the time that the request asks the gateway to wait.
PATIENCE_S = 60.0
# Bytes that are read of the body of a refusal.
MAX_PROBLEM_BYTES = 1 << 20


class TokenAuth(httpx.Auth):
    """Sends the token with each request, and is the only one that knows it."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        request.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        yield request


class AsyncTransport:
    """One gateway. `client` is closed with it if it was made here."""

    def __init__(self, target: Target, caller: str | None, verify: Any, client: httpx.AsyncClient | None) -> None:
        self._url = target.url
        self._auth = TokenAuth(target.token)
        if caller is not None and not caller.isprintable():
            raise ConfigurationError("`caller` has characters that cannot be shown")
        # As bytes, since the HTTP library takes no other characters than ASCII ones.
        self._headers = {b"X-Himalia-Caller": caller.encode()} if caller else {}
        self._own = client is None
        self._client = client or httpx.AsyncClient(verify=verify)

    async def close(self) -> None:
        """Closes its connections."""
        if self._own:
            await self._client.aclose()

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """The JSON object of a response, or `None` for one without a body."""
        response = await self.request(method, path, **options)
        return object_of(response.content, f"{method} {path} at {self._url}") if response.content else None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Any = None,
        body: Any = None,
        content: Any = None,
        headers: dict[str, str] | None = None,
        wait_s: float = 0.0,
        repeat: bool | None = None,
    ) -> httpx.Response:
        """A response whose status says success.

        `repeat`: whether it may be sent again when it is not known what became of it; without it, if it is a GET, PUT or DELETE. What
        the gateway refuses as retryable is always sent again.
        """
        again = method in ("GET", "PUT", "DELETE") if repeat is None else repeat
        for attempt in range(ATTEMPTS):
            request = self._build(method, path, params, body, content() if callable(content) else content, headers, wait_s)
            found = await self._attempt(request)
            if isinstance(found, _NoResponse):
                failure: HimaliaError = found.error
                pause = _usual_pause(attempt) if again or found.unseen else None
            elif found.is_success:
                return found
            else:
                failure = of_problem(found.status_code, _problem(found))
                pause = _pause_of(failure, attempt)
            if pause is None or attempt + 1 == ATTEMPTS:
                break
            await asyncio.sleep(pause)
        raise failure

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, params: Any = None, body: Any = None, headers: dict[str, str] | None = None, wait_s: float = 0.0
    ) -> AsyncIterator[httpx.Response]:
        """A response that is read as it arrives. One attempt: the caller knows how to continue."""
        request = self._build(method, path, params, body, None, headers, wait_s)
        found = await self._attempt(request, stream=True)
        if isinstance(found, _NoResponse):
            raise found.error
        try:
            if not found.is_success:
                raise of_problem(found.status_code, _problem(found))
            yield found
        finally:
            await found.aclose()

    async def pages(self, path: str, member: str, params: list[tuple[str, str]]) -> AsyncIterator[dict[str, Any]]:
        """The elements of a list, page by page."""
        cursor: list[tuple[str, str]] = []
        while True:
            page = await self.call("GET", path, params=params + cursor)
            for element in page[member]:
                yield element
            if page.get("next") is None:
                return
            cursor = [("cursor", page["next"])]

    async def artifact(self, artifact: str) -> bytes:
        """The bytes of an artifact, named with or without `sha256:`."""
        return (await self.request("GET", f"/v1/artifacts/{artifact.removeprefix('sha256:')}")).content

    def _build(
        self, method: str, path: str, params: Any, body: Any, content: Any, headers: dict[str, str] | None, wait_s: float
    ) -> httpx.Request:
        given = {**self._headers, **{name.encode(): value.encode() for name, value in (headers or {}).items()}}
        timeout = httpx.Timeout(PATIENCE_S, read=PATIENCE_S + wait_s)
        address = self._url + path
        if body is not None:
            return self._client.build_request(method, address, params=params, headers=given, timeout=timeout, json=body)
        return self._client.build_request(method, address, params=params, headers=given, timeout=timeout, content=content)

    async def _attempt(self, request: httpx.Request, stream: bool = False) -> httpx.Response | _NoResponse:
        try:
            response = await self._client.send(request, auth=self._auth, stream=stream)
            if stream and not response.is_success:
                await response.aread()
            return response
        except httpx.RequestError as error:
            # Not raised here: frames of the HTTP library, which hold the headers of the request, would be part of it. The text of
            # an error in the request itself has its headers too.
            why = "" if isinstance(error, httpx.LocalProtocolError) else f": {error}"
            failed = ConnectionFailed(f"{request.method} {request.url.path} at {self._url}: {type(error).__name__}{why}")
            return _NoResponse(failed, isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)))


@dataclass(frozen=True)
class _NoResponse:
    """Why there is none, and whether the gateway has certainly not seen the request."""

    error: ConnectionFailed
    unseen: bool


def _usual_pause(attempt: int) -> float:
    return min(0.1 * 2.0**attempt, LONGEST_PAUSE_S)


def _pause_of(refusal: ApiError, attempt: int) -> float | None:
    """The pause before a refused request is sent again; `None` if that is of no use, or not soon."""
    after = refusal.retry_after_s or 0.0
    if not refusal.retryable or after > LONGEST_PAUSE_S:
        return None
    return max(_usual_pause(attempt), after)


def event_of(line: str) -> dict[str, Any] | None:
    """The object of a line of NDJSON; `None` for an empty one."""
    return object_of(line, "an event") if line.strip() else None


def object_of(text: str | bytes, what: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidResponse(f"{what}: the response is no JSON object, so it is not from a gateway of Himalia")
    return found


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        problem = response.json() if len(response.content) <= MAX_PROBLEM_BYTES else {}
    except ValueError:
        problem = {}
    return problem if isinstance(problem, dict) else {}
