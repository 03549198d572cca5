"""What can go wrong: one exception class for each kind of problem.

`HimaliaError` is the base of all. A request that the gateway refused is an `ApiError` with the stable `code` of the problem; its
subclasses group codes by HTTP status. Code that raises an exception in a session is *not* an error of the API: it is an
`Execution` whose status is `error`, and `Execution.check()` turns that into `CodeError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import Execution

__all__ = [
    "ApiError",
    "AuthenticationError",
    "BadRequest",
    "CodeError",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "Gone",
    "HimaliaError",
    "InvalidResponse",
    "LimitExceeded",
    "NotFound",
    "PermissionDenied",
    "StreamEnded",
    "TooMany",
    "Unavailable",
    "Unsupported",
]


class HimaliaError(Exception):
    """The base of all exceptions of this package."""


class ConfigurationError(HimaliaError):
    """It is not known which gateway is meant, or its token is missing."""


class ConnectionFailed(HimaliaError):
    """The gateway cannot be reached, or the connection broke off and may not be repeated."""


class InvalidResponse(HimaliaError):
    """Something answered that is no gateway of Himalia, such as a page of a proxy."""


class StreamEnded(HimaliaError):
    """A stream of events ended before its execution did. `reason` is that of the gateway, such as `kernel_gone`."""

    def __init__(self, execution_id: str, reason: str) -> None:
        super().__init__(f"the events of {execution_id} ended: {reason}")
        self.execution_id = execution_id
        self.reason = reason


class ApiError(HimaliaError):
    """A request that the gateway refused.

    `code` is a stable word, `status` the HTTP status, `field` the name of an invalid member or parameter, and `retryable` whether
    the same request may succeed later, after `retry_after_s` seconds. `server_status` is the HTTP status with which the server of a
    tool refused a call. `problem` is the whole problem document (RFC 9457), and
    `request_id` is in the log of the gateway.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        self.code: str = problem.get("code") or f"http_{status}"
        self.detail: str = problem.get("detail") or problem.get("title") or ""
        self.field: str | None = problem.get("field")
        self.retryable: bool = bool(problem.get("retryable"))
        self.retry_after_s: float | None = problem.get("retry_after_s")
        self.server_status: int | None = problem.get("server_status")
        self.request_id: str | None = problem.get("request_id")
        super().__init__(f"{self.code}: {self.detail}" if self.detail else self.code)


class BadRequest(ApiError):
    """400, 413, 415, 416 or 422: the request is invalid, or asks for more than is allowed. `field` may name what."""


class AuthenticationError(ApiError):
    """401: the token is missing, wrong, expired or revoked."""


class PermissionDenied(ApiError):
    """403: the token does not allow this."""


class NotFound(ApiError):
    """404: `code` says what does not exist."""


class Conflict(ApiError):
    """409: the state of the session, kernel or file does not allow this."""


class Gone(ApiError):
    """410: the session has ended, or what is asked for was removed."""


class TooMany(ApiError):
    """429: a rate, a queue or a quota."""


class LimitExceeded(BadRequest):
    """422 `limit_exceeded`: more than the template allows."""


class Unsupported(ApiError):
    """501: the kernel or the sandbox cannot do this."""


class Unavailable(ApiError):
    """Another 5xx: the gateway cannot do this now."""


class CodeError(HimaliaError):
    """Code in a session failed, timed out, was interrupted, or lost its kernel process. `execution` has everything about it."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.status = execution.status
        error = execution.error
        self.name: str = error.name if error else execution.status
        self.value: str = error.value if error else ""
        self.hint: str | None = error.hint if error else None
        self.traceback: list[str] = error.traceback if error else []
        super().__init__(f"{self.name}: {self.value}" if self.value else self.name)


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: AuthenticationError,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: BadRequest,
    415: BadRequest,
    416: BadRequest,
    422: BadRequest,
    429: TooMany,
    501: Unsupported,
}


def of_problem(status: int, problem: dict[str, Any]) -> ApiError:
    """The exception for a problem document."""
    if problem.get("code") == "limit_exceeded":
        return LimitExceeded(status, problem)
    kind = _BY_STATUS.get(status, Unavailable if status >= 500 else ApiError)
    return kind(status, problem)
