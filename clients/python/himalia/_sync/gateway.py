"""A gateway: its sessions, templates and executions."""

from __future__ import annotations

import os
import uuid
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from .._target import Secret, find
from ..models import Execution, Template
from .session import Session
from .transport import WAIT_S, Transport


class Gateway:
    """A gateway, and how to get in.

    Without arguments it is the gateway that HIMALIA_URL and HIMALIA_TOKEN (or HIMALIA_TOKEN_FILE) name, else the one of this machine and
    user that `himalia up` has started. `caller` is the name that this client gives itself: executions show it, and clients with
    different names take turns. `verify` is that of `httpx`, for `https` URLs with a private CA: an `ssl.SSLContext`.

    >>> with Gateway() as gateway:  # doctest: +SKIP
    ...     session = gateway.session("analysis")
    ...     result = session.execute("21 * 2")
    ...     print(result.value)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        caller: str | None = None,
        verify: Any = True,
        http_client: httpx.Client | None = None,
    ) -> None:
        self.url = url or ""
        # No variable of this frame holds the token after this line.
        token = Secret(token) if token is not None else None  # type: ignore[assignment]
        target = find(url, token, token_file, data_dir)  # type: ignore[arg-type]
        self.url = target.url
        self._transport = Transport(target, caller, verify, http_client)

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def close(self) -> None:
        """Closes its connections. Sessions and their executions continue."""
        self._transport.close()

    def session(self, name: str | None = None, **options: Any) -> Session:
        """The session with this name, started now if there is none; without a name, a new session.

        `options` are the members of the request: `template`, `env`, `secrets`, `cwd`, `limits`, `isolation`, `image`, `network`,
        `idle_timeout_s`, `lifetime_s`, `labels`. For a session that exists, only `template` is checked.

        >>> gateway.session("analysis", limits={"memory_bytes": 2**30})  # doctest: +SKIP
        """
        if name is not None:
            info = self._transport.call("PUT", f"/v1/sessions/{quote(name, safe='')}", body=options, wait_s=WAIT_S)
        else:
            key = options.pop("idempotency_key", None) or uuid.uuid4().hex
            body = {**options, "idempotency_key": key}
            info = self._transport.call("POST", "/v1/sessions", body=body, wait_s=WAIT_S, repeat=True)
        return Session(self._transport, info)

    def attach(self, session: str) -> Session:
        """A session that exists, by its id or name. Raises `NotFound`, or `Gone` for one that has ended and is not kept."""
        return Session(self._transport, self._transport.call("GET", f"/v1/sessions/{quote(session, safe='')}"))

    def sessions(self, *, labels: dict[str, str] | None = None, state: str | None = None, ended: bool = False) -> list[Session]:
        """The sessions that the token may see; `labels` must all match. `ended`: those that have ended and are kept."""
        params: list[tuple[str, str]] = [("label", f"{name}={value}") for name, value in (labels or {}).items()]
        params += [("state", state)] if state else []
        params += [("ended", "true")] if ended else []
        return [Session(self._transport, info) for info in self._transport.pages("/v1/sessions", "sessions", params)]

    def templates(self) -> list[Template]:
        """What sessions can be started from."""
        return [Template.of(raw) for raw in self._transport.pages("/v1/templates", "templates", [])]

    def execution(self, execution_id: str, *, wait_s: float = 0.0) -> Execution:
        """An execution of any session, by its id; `wait_s` is how long to wait for its end, at most 600."""
        params = {"wait_s": wait_s} if wait_s else None
        return Execution.of(self._transport.call("GET", f"/v1/executions/{execution_id}", params=params, wait_s=wait_s))

    def artifact(self, artifact: str) -> bytes:
        """The bytes of an image or another large value."""
        return self._transport.artifact(artifact)

    def usage(self) -> dict[str, Any]:
        """What the token's tenant uses, and its limits."""
        found: dict[str, Any] = self._transport.call("GET", "/v1/usage")
        return found

    def publish_workflow(self, definition: dict[str, Any]) -> dict[str, Any]:
        """Publishes a version of a workflow: what is wrong with it is a `BadRequest`. The same content again changes nothing."""
        return self._dict("POST", "/v1/workflows", body={"definition": definition}, repeat=True)

    def run_workflow(
        self,
        name: str,
        inputs: dict[str, Any] | None = None,
        *,
        version: str | None = None,
        callback: str | None = None,
        idempotency_key: str | None = None,
        wait_s: float = 0.0,
    ) -> dict[str, Any]:
        """Starts a run of a workflow, which continues by itself; `wait_s` is how long to wait for its end, at most 600.

        `callback` is the URL that its result is posted to, signed with `callback_secret` of what is returned.

        >>> gateway.run_workflow("monthly", {"month": "2026-10"}, wait_s=300)["outputs"]  # doctest: +SKIP
        """
        body: dict[str, Any] = {"inputs": inputs or {}, "idempotency_key": idempotency_key or uuid.uuid4().hex, "wait_s": wait_s}
        body |= {member: value for member, value in (("version", version), ("callback", callback)) if value is not None}
        return self._dict("POST", f"/v1/workflows/{quote(name, safe='')}/runs", body=body, wait_s=wait_s, repeat=True)

    def run_skill(
        self,
        name: str,
        inputs: dict[str, Any] | None = None,
        *,
        version: str | None = None,
        template: str | None = None,
        timeout_s: int | None = None,
        callback: str | None = None,
        idempotency_key: str | None = None,
        wait_s: float = 0.0,
    ) -> dict[str, Any]:
        """Starts a run of a code skill in a session of its own; `wait_s` is how long to wait for its end, at most 600.

        >>> gateway.run_skill("reconcile", {"month": "2026-10"}, wait_s=300)["outputs"]  # doctest: +SKIP
        """
        body: dict[str, Any] = {"inputs": inputs or {}, "wait_s": wait_s}
        more = (("version", version), ("template", template), ("timeout_s", timeout_s), ("callback", callback))
        body |= {member: value for member, value in more if value is not None}
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        path = f"/v1/skills/{quote(name, safe='')}/runs"
        return self._dict("POST", path, body=body, headers=headers, wait_s=wait_s, repeat=True)

    def run(self, run: str, *, wait_s: float = 0.0) -> dict[str, Any]:
        """A run of a skill or a workflow, by its id; `wait_s` is how long to wait for its end, at most 600."""
        params = {"wait_s": wait_s} if wait_s else None
        return self._dict("GET", f"/v1/runs/{quote(run, safe='')}", params=params, wait_s=wait_s)

    def runs(self, **filters: str) -> list[dict[str, Any]]:
        """Runs of skills and workflows, the latest first.

        `filters` are `kind`, `skill`, `workflow`, `schedule`, `webhook`, `status`, `session` and `origin`.

        >>> gateway.runs(workflow="monthly", status="failed")  # doctest: +SKIP
        """
        return [run for run in self._transport.pages("/v1/runs", "runs", list(filters.items()))]

    def answer_step(self, run: str, step: str, value: str) -> dict[str, Any]:
        """Answers a step of a run that waits for a person. `Conflict` if it was answered before."""
        path = f"/v1/runs/{quote(run, safe='')}/steps/{quote(step, safe='')}/answer"
        return self._dict("POST", path, body={"value": value})

    def cancel_run(self, run: str) -> dict[str, Any]:
        """Ends a run, and what of it runs."""
        return self._dict("POST", f"/v1/runs/{quote(run, safe='')}/cancel", repeat=True)

    def _dict(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._transport.call(method, path, **options)
        return found
