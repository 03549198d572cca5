"""Which gateway is meant, and its token."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import httpx

from .errors import ConfigurationError


class Secret:
    """A text that is not shown: not by `repr`, in tracebacks with values of variables, or in logs."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text.strip()

    def reveal(self) -> str:
        """The text."""
        return self._text

    def is_sendable(self) -> bool:
        """Whether a header can carry it: visible ASCII characters. An HTTP library would show another one in its error."""
        return bool(self._text) and all("!" <= one <= "~" for one in self._text)

    def __repr__(self) -> str:
        return "Secret(…)"


@dataclass(frozen=True)
class Target:
    """The URL of a gateway, without a slash at its end, and its token."""

    url: str
    token: Secret


def find(url: str | None, token: Secret | None, token_file: str | os.PathLike[str] | None, data_dir: str | os.PathLike[str] | None) -> Target:
    """From the arguments, else the environment, else the data directory of a gateway of this machine.

    A token that is found in a data directory is sent to the address that is found there, and to no other.
    """
    if token is not None and token_file is not None:
        raise ConfigurationError("give `token` or `token_file`, not both")
    said = token
    if said is None and token_file is not None:
        said = _read(Path(token_file))
    if said is None and os.environ.get("HIMALIA_TOKEN"):
        said = Secret(os.environ["HIMALIA_TOKEN"])
    if said is None and os.environ.get("HIMALIA_TOKEN_FILE"):
        said = _read(Path(os.environ["HIMALIA_TOKEN_FILE"]))
    url = url or os.environ.get("HIMALIA_URL") or None
    if url is not None:
        if said is None:
            raise ConfigurationError(f"a token is needed for {url}: `token_file`, `token`, HIMALIA_TOKEN_FILE or HIMALIA_TOKEN")
        return _target(url, said)
    directory = Path(data_dir or os.environ.get("HIMALIA_DATA_DIR") or _usual_data_dir())
    try:
        address = json.loads((directory / "gateway.json").read_text())
    except (OSError, ValueError) as error:
        hint = "give `url`, set HIMALIA_URL, or start one on this machine with `himalia up`"
        raise ConfigurationError(f"no gateway has written its address to {directory}: {hint}") from error
    if said is None:
        if not address.get("token_file"):
            raise ConfigurationError("the token of the gateway is in no file: `token_file`, HIMALIA_TOKEN_FILE or HIMALIA_TOKEN")
        said = _read(Path(address["token_file"]))
    return _target(address["url"], said)


def _target(url: str, token: Secret) -> Target:
    """Both checked, so that no request fails because of them. Neither is shown where it may have a secret in it."""
    if not token.is_sendable():
        raise ConfigurationError("the token is empty, or has characters other than visible ASCII ones")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = None
    # Not raised in the handler: frames of the HTTP library hold the URL.
    if parsed is None or parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigurationError("the URL of the gateway has to be like http://127.0.0.1:8888")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ConfigurationError("the URL of the gateway has no user, query or fragment: the token is `token` or `token_file`")
    return Target(url.rstrip("/"), token)


def _usual_data_dir() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or ""
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local/share") / "himalia/data"


def _read(path: Path) -> Secret:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ConfigurationError(f"the token file {path} cannot be read: {error.strerror}") from error
    if not lines or not lines[0].strip():
        raise ConfigurationError(f"the token file {path} is empty")
    return Secret(lines[0].strip())
