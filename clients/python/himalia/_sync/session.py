"""A session: code that runs in it, its variables and its files."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .. import _frames
from ..errors import Gone, NotFound
from ..models import Event, Execution, InputRequest, Table, Variable
from .files import Files
from .stream import events, session_events
from .transport import STOP_S, WAIT_S, Transport

if TYPE_CHECKING:
    import pandas
    import pyarrow

# Bytes of images that a result contains: the gateway's maximum.
IMAGE_BYTES = 4 << 20
# Rows of a variable that one request reads: the gateway's maximum.
ARROW_ROWS = 50_000

Answer = Callable[[InputRequest], Any]


class Session:
    """A session of a gateway. Its variables live until it ends, whatever happens to this object.

    `with` ends the session at the end of the block. `info` is the JSON of the session when it was last read.
    """

    def __init__(self, transport: Transport, info: dict[str, Any]) -> None:
        self._transport = transport
        self.info = info
        self.id: str = info["id"]
        self.name: str | None = info.get("name")
        self._path = f"/v1/sessions/{self.id}"
        self.files = Files(transport, self.id)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self.id!r})"

    def refresh(self) -> dict[str, Any]:
        """Reads `info` again, and returns it."""
        self.info = self._transport.call("GET", self._path)
        return self.info

    def execute(
        self,
        code: str,
        *,
        wait_s: float | None = None,
        on_input: Answer | None = None,
        check: bool = False,
        **options: Any,
    ) -> Execution:
        """Runs code and waits for its end, or for `wait_s` seconds: then the result may be unfinished, and `wait` continues.

        `on_input` is called with an `InputRequest` when the code asks, and returns the answer. `check` raises `CodeError` unless the code
        ended well. `options` are the members of the request: `language`, `timeout_s`, `on_timeout`, `text_chars`, `image_bytes`,
        `image_pixels`, `store_history`, `expect_incarnation`, `max_failures`, `env`, `cwd`, `metadata`, `idempotency_key`. A lost connection neither stops the
        code nor runs it twice. Code that ignores interrupts is not waited for without `wait_s`: the result is unfinished, and has `stuck`.

        >>> session.execute("import pandas as pd; df = pd.read_csv('data.csv'); df.head()")  # doctest: +SKIP
        """
        body = self._submission(code, options, on_input is not None)
        # The response would not come when the code asks.
        step = _step(options.get("timeout_s"))
        longest = step if on_input is None else 0.0
        first = longest if wait_s is None else min(wait_s, longest)
        raw = self._transport.call("POST", f"{self._path}/executions", body={**body, "wait_s": first}, wait_s=first, repeat=True)
        left = None if wait_s is None else wait_s - first
        return self._wait(Execution.of(raw), left, step, on_input, check, _images(body))

    def start(self, code: str, **options: Any) -> Execution:
        """Runs code without waiting for it. `options` are those of `execute`."""
        body = {**self._submission(code, options, bool(options.pop("allow_stdin", False))), "background": True}
        return Execution.of(self._transport.call("POST", f"{self._path}/executions", body=body, repeat=True))

    def wait(
        self,
        execution: Execution | str,
        *,
        wait_s: float | None = None,
        on_input: Answer | None = None,
        check: bool = False,
        image_bytes: int = IMAGE_BYTES,
        image_pixels: int | None = None,
    ) -> Execution:
        """Waits for the end of an execution, at most `wait_s` seconds, and returns it as it is then."""
        images = _images({"image_bytes": image_bytes, "image_pixels": image_pixels})
        found = execution if isinstance(execution, Execution) else self._execution(execution, 0, images)
        return self._wait(found, wait_s, WAIT_S, on_input, check, images)

    def _wait(
        self, found: Execution, left: float | None, step_s: float, on_input: Answer | None, check: bool, images: dict[str, int]
    ) -> Execution:
        while not found.ended:
            if found.input is not None:
                if on_input is None:
                    break
                answer = on_input(found.input)
                self.answer(found, str(answer))
            elif found.stuck if left is None else left <= 0:
                break
            step = step_s if left is None else max(0.0, min(left, WAIT_S))
            found = self._execution(found.id, step, images)
            left = None if left is None else left - step
        return found.check() if check and found.ended else found

    def stream(self, code: str, **options: Any) -> Iterator[Event]:
        """Runs code and yields its events, the last one being `done` with the result. It continues where it was after a lost connection.

        >>> for event in session.stream("for i in range(3): print(i)"):  # doctest: +SKIP
        ...     print(event.text, end="")
        """
        allow_stdin = bool(options.pop("allow_stdin", False))
        body = self._submission(code, options, allow_stdin)
        for event in events(self._transport, (f"{self._path}/executions", body), None, 0):
            yield event

    def follow(self, execution: Execution | str, *, after: int = 0) -> Iterator[Event]:
        """The events of an execution, after the number `after`."""
        for event in events(self._transport, None, _id(execution), after):
            yield event

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """The events of all executions of the session, also those of other callers: after the number `after`, or from now on. It ends when
        the session does.

        >>> for event in session.events(after=0):  # doctest: +SKIP
        ...     print(event.execution_id, event.event)
        """
        for event in session_events(self._transport, self.id, after):
            yield event

    def answer(self, execution: Execution | str, value: str) -> None:
        """Answers the question of code that was started with `allow_stdin`."""
        self._transport.request("POST", f"/v1/executions/{_id(execution)}/input", body={"value": value})

    def interrupt(self, execution: Execution | str | None = None) -> None:
        """Interrupts what runs in the session; or one execution, which is cancelled if it waits."""
        path = f"{self._path}/interrupt" if execution is None else f"/v1/executions/{_id(execution)}/interrupt"
        self._transport.request("POST", path)

    def restart(self) -> None:
        """Replaces the process of the kernel. All variables are gone."""
        self.info = self._transport.call("POST", f"{self._path}/restart", wait_s=WAIT_S)

    def fork(self, **options: Any) -> Session:
        """A session with a copy of all variables, in the same sandbox. `options` are `files`, `env`, `labels` and the other members of the
        request. `info["hazards"]` says what it may have lost, such as threads.
        """
        [branch] = self.forks(1, **options)
        return branch

    def forks(self, count: int, **options: Any) -> list[Session]:
        """So many of them, of the same moment, at most 16: all or none.

        >>> for branch, depth in zip(session.forks(3), (4, 8, 16)):  # doctest: +SKIP
        ...     branch.execute(f"fit(depth={depth})")
        """
        body = {**options, "count": count, "atomic": True}
        made = self._transport.call("POST", f"{self._path}/fork", body=body, wait_s=WAIT_S)
        return [Session(self._transport, {**branch["session"], "hazards": branch["hazards"]}) for branch in made["branches"]]

    def change(self, **options: Any) -> None:
        """Changes `labels`, `idle_timeout_s` or `lifetime_s`."""
        self.info = self._transport.call("PATCH", self._path, body=options)

    def end(self) -> None:
        """Ends the session. Nothing happens if it has ended already."""
        try:
            self._transport.request("DELETE", self._path, wait_s=WAIT_S)
        except (NotFound, Gone):
            pass

    def output(self, execution: Execution | str) -> str:
        """All text of an execution, also what its result omits."""
        path = f"/v1/executions/{_id(execution)}/output"
        return (self._transport.request("GET", path, headers={"Accept": "text/plain"})).text

    def artifact(self, artifact: str) -> bytes:
        """The bytes of an image or another large value."""
        return self._transport.artifact(artifact)

    def variables(self) -> list[Variable]:
        """All variables of the kernel, also while it runs code."""
        return [Variable.of(raw) for raw in self._transport.pages(f"{self._path}/variables", "variables", [])]

    def variable(self, name: str, *, filters: list[dict[str, Any]] | None = None, **options: Any) -> dict[str, Any]:
        """A page of a variable as JSON: `limit`, `offset`, `sort`, `descending`. `filters` are conditions on columns of a frame.

        >>> session.variable("df", sort="price", descending=True, limit=10)  # doctest: +SKIP
        """
        params = self._part(options, filters)
        found: dict[str, Any] = self._transport.call("GET", f"{self._path}/variables/{quote(name, safe='')}", params=params)
        return found

    def table(self, name: str, *, offset: int = 0, limit: int = ARROW_ROWS, filters: list[dict[str, Any]] | None = None, **options: Any) -> Table:
        """At most 50,000 rows of a frame or series as an Arrow IPC stream."""
        params = self._part({**options, "offset": offset, "limit": limit, "format": "arrow"}, filters)
        response = self._transport.request("GET", f"{self._path}/variables/{quote(name, safe='')}", params=params)
        number = {key: int(response.headers.get(f"X-Himalia-{key}", "0")) for key in ("Total", "Matched", "Index-Columns")}
        return Table(response.content, number["Total"], number["Matched"], number["Index-Columns"])

    def arrow(self, name: str, *, limit: int | None = None, **options: Any) -> pyarrow.Table:
        """All rows of a frame or series, or the first `limit`, as a `pyarrow.Table`. It needs the package `pyarrow`."""
        return (self._rows(name, limit, options))[0]

    def pandas(self, name: str, *, limit: int | None = None, **options: Any) -> pandas.DataFrame | pandas.Series[Any]:
        """A frame or series, or its first `limit` rows, with index and labels. It needs the packages `pandas` and `pyarrow`.

        >>> session.pandas("df", filters=[{"column": "region", "op": "==", "value": "north"}])  # doctest: +SKIP
        """
        _frames.known_types()
        rows, index_columns = self._rows(name, limit, options)
        return _frames.to_pandas(rows, index_columns)

    def _rows(self, name: str, limit: int | None, options: dict[str, Any]) -> tuple[pyarrow.Table, int]:
        import pyarrow

        parts: list[pyarrow.Table] = []
        offset, index_columns = 0, 0
        while True:
            step = ARROW_ROWS if limit is None else min(ARROW_ROWS, limit - offset)
            page = self.table(name, offset=offset, limit=step, **options)
            part = pyarrow.ipc.open_stream(io.BytesIO(page.arrow)).read_all()
            parts.append(part)
            offset, index_columns = offset + part.num_rows, page.index_columns
            if part.num_rows == 0 or offset >= page.matched or offset == limit:
                return _frames.joined(parts), index_columns

    def _execution(self, execution_id: str, wait_s: float, images: dict[str, int]) -> Execution:
        params: dict[str, Any] = {**images, **({"wait_s": wait_s} if wait_s > 0 else {})}
        return Execution.of(self._transport.call("GET", f"/v1/executions/{execution_id}", params=params, wait_s=wait_s))

    @staticmethod
    def _submission(code: str, options: dict[str, Any], allow_stdin: bool) -> dict[str, Any]:
        key = options.get("idempotency_key") or uuid.uuid4().hex
        return {"image_bytes": IMAGE_BYTES, **options, "code": code, "allow_stdin": allow_stdin, "idempotency_key": key}

    @staticmethod
    def _part(options: dict[str, Any], filters: list[dict[str, Any]] | None) -> list[tuple[str, str]]:
        params = [(name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in options.items() if value is not None]
        return params + [("filter", json.dumps(condition)) for condition in filters or []]


def _images(options: dict[str, Any]) -> dict[str, int]:
    """What a request says of the images in its response."""
    return {name: options[name] for name in ("image_bytes", "image_pixels") if options.get(name) is not None}


def _id(execution: Execution | str) -> str:
    return execution if isinstance(execution, str) else execution.id


def _step(timeout_s: float | None) -> float:
    """How long one request waits: until it is known whether code ignores the interrupts at the end of its time."""
    return WAIT_S if timeout_s is None else min(WAIT_S, timeout_s + STOP_S)
