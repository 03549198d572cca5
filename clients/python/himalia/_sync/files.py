"""The files of a session's work directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import quote

import httpx

from ..errors import ConnectionFailed
from ..models import FileEntry
from .transport import Transport

CHUNK = 1 << 20


class Files:
    """The files of a session. Paths are relative to its work directory; nothing outside of it is reached."""

    def __init__(self, transport: Transport, session: str) -> None:
        self._transport = transport
        self._path = f"/v1/sessions/{session}/files"

    def read(self, path: str) -> bytes:
        """The content of a file."""
        return (self._transport.request("GET", self._file(path))).content

    def write(self, path: str, content: bytes | str) -> None:
        """Writes a file, with its missing parent directories. Readers see the old content or the new one."""
        data = content.encode() if isinstance(content, str) else content
        self._transport.request("PUT", self._file(path), content=data, headers=_BYTES)

    def upload(self, local: str | os.PathLike[str], path: str | None = None) -> None:
        """Writes a local file of any size; without `path` under the same name."""
        name = path or os.path.basename(os.fspath(local))
        self._transport.request("PUT", self._file(name), content=lambda: _chunks(local), headers=_BYTES)

    def download(self, path: str, local: str | os.PathLike[str]) -> None:
        """Reads a file of any size into a local one, which is complete or absent."""
        part, broken = f"{os.fspath(local)}.part", ""
        try:
            with self._transport.stream("GET", self._file(path)) as response:
                with open(part, "wb") as file:
                    for chunk in response.iter_bytes(CHUNK):
                        file.write(chunk)
            os.replace(part, local)
        except httpx.RequestError as error:
            broken = type(error).__name__
        finally:
            if os.path.exists(part):
                os.unlink(part)
        # Not raised in the handler: frames of the HTTP library hold the headers of the request.
        if broken:
            raise ConnectionFailed(f"the download of {path} broke off: {broken}")

    def list(self, path: str = "", *, depth: int = 1) -> list[FileEntry]:
        """What is in a directory, `depth` directories deep, in the order of paths."""
        params = [("depth", str(depth)), *([("path", path)] if path else [])]
        return [FileEntry.of(raw) for raw in self._transport.pages(self._path, "entries", params)]

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or a directory, which must be empty without `recursive`."""
        params = {"recursive": "true"} if recursive else None
        self._transport.request("DELETE", self._file(path), params=params)

    def _file(self, path: str) -> str:
        return f"{self._path}/{quote(path)}"


_BYTES = {"Content-Type": "application/octet-stream"}


def _chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
