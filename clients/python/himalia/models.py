"""What the gateway returns. `raw` of each object is the JSON that it was made from, with members that this version does not know."""

from __future__ import annotations

import base64
import builtins
import binascii
import os
from dataclasses import dataclass, field
from typing import Any

from .errors import CodeError

__all__ = ["ArtifactFile", "CodeFailure", "Event", "Execution", "FileEntry", "Image", "InputRequest", "Output", "Table", "Template", "Variable"]

_ENDED = frozenset({"ok", "error", "timeout", "interrupted", "kernel_died", "oom_killed", "aborted"})


@dataclass(frozen=True)
class Image:
    """An image that code has displayed. `content` is `None` if it exceeded `image_bytes` or `image_pixels`: then read `artifact`."""

    media_type: str
    artifact: str
    bytes: int
    width: int | None = None
    height: int | None = None
    content: builtins.bytes | None = field(default=None, repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a local file. Raises `ValueError` if its content is not here."""
        if self.content is None:
            raise ValueError(f"the image is not part of the result: read the artifact {self.artifact}")
        with open(path, "wb") as file:
            file.write(self.content)


@dataclass(frozen=True)
class Output:
    """A display or the value of an expression: its representations by media type. Text is text, and large values are artifacts."""

    kind: str
    data: dict[str, Any]
    table: dict[str, Any] | None = field(default=None, repr=False)
    plot: dict[str, Any] | None = field(default=None, repr=False)
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str | None:
        """Its `text/plain`, which is the `repr` of a value."""
        text = self.data.get("text/plain")
        return text if isinstance(text, str) else None

    @property
    def images(self) -> list[Image]:
        """Its images, in each format that the code has made, or the smaller copy of an image that exceeded `image_pixels`."""
        preview = self.raw.get("preview")
        if preview and "base64" in preview:
            return [_image("image/png", preview)]
        return [_image(kind, value) for kind, value in self.data.items() if kind.startswith("image/") and isinstance(value, dict)]

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Output:
        """From JSON."""
        return cls(raw.get("output_type") or raw.get("event") or "", raw.get("data") or {}, raw.get("table"), raw.get("plot"), raw)


@dataclass(frozen=True)
class CodeFailure:
    """Why code failed. `line` and `source` are those of the caller's code, and `hint` says what would be right, if that is known."""

    name: str
    value: str
    traceback: list[str] = field(default_factory=list, repr=False)
    line: int | None = None
    source: str | None = None
    hint: str | None = None

    @classmethod
    def of(cls, raw: dict[str, Any] | None) -> CodeFailure | None:
        """From JSON."""
        if raw is None:
            return None
        frame = raw.get("frame") or {}
        traceback = raw.get("traceback") or []
        return cls(raw.get("name") or "", raw.get("value") or "", traceback, frame.get("line"), frame.get("source"), raw.get("hint"))


@dataclass(frozen=True)
class ArtifactFile:
    """A file that code has written below `/session/artifacts` or `/tmp/artifacts`: `session.artifact(file.artifact)` reads it."""

    name: str
    media_type: str
    bytes: int
    artifact: str

    @classmethod
    def of(cls, raw: dict[str, Any]) -> ArtifactFile:
        """From JSON."""
        return cls(raw["name"], raw["media_type"], raw["bytes"], raw["artifact"])


@dataclass(frozen=True)
class InputRequest:
    """Code waits for an answer. `password`: it must not be shown."""

    prompt: str
    password: bool


@dataclass(frozen=True)
class Execution:
    """Code that ran, runs or waits in a session.

    `status` is `queued`, `running`, or how it ended: `ok`, `error`, `timeout`, `interrupted`, `kernel_died`, `oom_killed`. `text` is what it
    printed, as a terminal shows it, and `outputs` are its displays and its value. `artifacts` are files that are kept with the log.
    """

    id: str
    session: str
    status: str
    text: str
    outputs: list[Output] = field(repr=False)
    error: CodeFailure | None
    input: InputRequest | None
    execution_count: int | None
    duration_ms: int | None
    incarnation: int | None
    replaced: dict[str, Any] | None
    files_written: list[str]
    artifacts: list[ArtifactFile]
    metadata: dict[str, Any] | None
    raw: dict[str, Any] = field(repr=False)

    @property
    def ended(self) -> bool:
        """Whether its status is final."""
        return self.status in _ENDED

    @property
    def stuck(self) -> dict[str, Any] | None:
        """The `execution` that ignores interrupts, this one or the one that it waits for, with a `hint`; `None` if there is none."""
        return self.raw.get("stuck")

    @property
    def ok(self) -> bool:
        """Whether it ended without an error."""
        return self.status == "ok"

    @property
    def value(self) -> str | None:
        """The `repr` of its last expression; `None` if it has no value."""
        results = [output for output in self.outputs if output.kind == "execute_result"]
        return results[-1].text if results else None

    @property
    def images(self) -> list[Image]:
        """All images, in order."""
        return [image for output in self.outputs for image in output.images]

    def check(self) -> Execution:
        """Itself if its status is `ok`; raises `CodeError` otherwise."""
        if not self.ok:
            raise CodeError(self)
        return self

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Execution:
        """From JSON."""
        asked = raw.get("input")
        kernel = raw.get("kernel") or {}
        return cls(
            id=raw["id"],
            session=raw["session"],
            status=raw["status"],
            text=raw.get("text") or "",
            outputs=[Output.of(output) for output in raw.get("outputs") or []],
            error=CodeFailure.of(raw.get("error")),
            input=InputRequest(asked.get("prompt") or "", bool(asked.get("password"))) if asked else None,
            execution_count=raw.get("execution_count"),
            duration_ms=raw.get("duration_ms"),
            incarnation=kernel.get("incarnation"),
            replaced=kernel.get("replaced"),
            files_written=[_path(file) for file in (raw.get("files") or {}).get("written") or []],
            artifacts=[ArtifactFile.of(file) for file in raw.get("artifacts") or []],
            metadata=raw.get("metadata"),
            raw=raw,
        )


@dataclass(frozen=True)
class Event:
    """Something that happened to an execution: `queued`, `started`, `stdout`, `stderr`, `display`, `result`, `done` and others.

    `seq` is its position, from which a stream can continue.
    """

    event: str
    seq: int | None
    raw: dict[str, Any] = field(repr=False)

    @property
    def execution_id(self) -> str | None:
        """Of which execution it is; `None` for a `gap` that may concern several."""
        return self.raw.get("execution_id")

    @property
    def text(self) -> str:
        """What was printed, of `stdout` and `stderr`."""
        return self.raw.get("text") or ""

    @property
    def output(self) -> Output | None:
        """Of `display`, `result` and `update_display`."""
        return Output.of(self.raw) if self.event in ("display", "result", "update_display") else None

    @property
    def execution(self) -> Execution | None:
        """The result, of `done`."""
        return Execution.of(self.raw["result"]) if self.event == "done" else None


@dataclass(frozen=True)
class Variable:
    """A variable of a kernel."""

    name: str
    type: str
    shape: list[int] | None
    dtype: str | None
    length: int | None
    bytes: int | None
    preview: str | None = field(repr=False)
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Variable:
        """From JSON."""
        return cls(
            raw["name"], raw["type"], raw.get("shape"), raw.get("dtype"), raw.get("length"), raw.get("bytes"), raw.get("preview"), raw
        )


@dataclass(frozen=True)
class Table:
    """Rows of a frame or series: an Arrow IPC stream, and what is needed to put it together."""

    arrow: bytes = field(repr=False)
    total: int
    matched: int
    index_columns: int


@dataclass(frozen=True)
class FileEntry:
    """A file, directory, symlink or other entry of a session's work directory."""

    path: str
    kind: str
    bytes: int | None
    modified: str | None

    @classmethod
    def of(cls, raw: dict[str, Any]) -> FileEntry:
        """From JSON."""
        return cls(raw["path"], raw["kind"], raw.get("bytes"), raw.get("modified"))


@dataclass(frozen=True)
class Template:
    """What a session can be started from."""

    name: str
    kernelspec: str | None
    language: str | None
    raw: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Template:
        """From JSON."""
        return cls(raw["name"], raw.get("kernelspec"), raw.get("language"), raw)


def _image(media_type: str, value: dict[str, Any]) -> Image:
    content = None
    if isinstance(value.get("base64"), str):
        try:
            content = base64.b64decode(value["base64"], validate=True)
        except binascii.Error:
            content = None
    return Image(media_type, value.get("artifact") or "", value.get("bytes") or 0, value.get("width"), value.get("height"), content)


def _path(file: Any) -> str:
    return file["path"] if isinstance(file, dict) else str(file)
