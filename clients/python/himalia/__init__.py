"""A client of the Himalia kernel gateway.

>>> from himalia import Gateway
>>> with Gateway() as gateway:  # doctest: +SKIP
...     session = gateway.session("analysis")
...     session.execute("import pandas as pd; df = pd.DataFrame({'a': range(5)})").check()
...     print(session.execute("df.a.sum()").value)
...     frame = session.pandas("df")

`Gateway` and `Session` wait; `AsyncGateway` and `AsyncSession` have the same methods for `asyncio`.
"""

import importlib
import importlib.util

from ._async.files import AsyncFiles
from ._async.gateway import AsyncGateway
from ._async.session import AsyncSession
from ._sync.files import Files
from ._sync.gateway import Gateway
from ._sync.session import Session
from .errors import (
    ApiError,
    AuthenticationError,
    BadRequest,
    CodeError,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    Gone,
    HimaliaError,
    InvalidResponse,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    StreamEnded,
    TooMany,
    Unavailable,
    Unsupported,
)
from .models import ArtifactFile, CodeFailure, Event, Execution, FileEntry, Image, InputRequest, Output, Table, Template, Variable

__all__ = [
    "ApiError",
    "ArtifactFile",
    "AsyncFiles",
    "AsyncGateway",
    "AsyncSession",
    "AuthenticationError",
    "BadRequest",
    "CodeError",
    "CodeFailure",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "Event",
    "Execution",
    "FileEntry",
    "Files",
    "Gateway",
    "Gone",
    "HimaliaError",
    "Image",
    "InputRequest",
    "InvalidResponse",
    "LimitExceeded",
    "NotFound",
    "Output",
    "PermissionDenied",
    "Session",
    "StreamEnded",
    "Table",
    "Template",
    "TooMany",
    "Unavailable",
    "Unsupported",
    "Variable",
]


def __getattr__(name):
    # In a kernel of a session, the package of this name for code that calls tools is hidden by this one.
    if importlib.util.find_spec("himalia_inside") is not None:
        inside = importlib.import_module("himalia_inside")
        if name in inside.__all__:
            return getattr(inside, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
