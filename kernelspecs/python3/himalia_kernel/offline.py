"""Advice for code that wants the network, or packages, where a session has neither or only an index of packages."""

import os
import re
import sys

from himalia_kernel import statics

_INDEX = "http://packages.internal/"
_CHAIN = 20  # exceptions that led to one
_UNREACHABLE = (101, 113)  # ENETUNREACH, EHOSTUNREACH
_INSTALLS = re.compile(r"\bpip3?\b[^\n;|&]*\b(?:install|download|wheel)\b")
_WORDS = 64  # of a command

_cause_of = BaseException.__dict__["__cause__"].__get__
_context_of = BaseException.__dict__["__context__"].__get__
_errno_of = OSError.errno.__get__

# What the network's own errors are called, and those of clients that wrap them.
_ERRORS = (
    ("socket", "gaierror"),
    ("urllib.error", "URLError"),
    ("requests.exceptions", "ConnectionError"),
    ("httpx", "ConnectError"),
    ("aiohttp", "ClientConnectorError"),
)

NO_PACKAGES = (
    "this session has no network, so pip fetches nothing. Install from files, wheels of what they depend on "
    "included (`%pip install ./name.whl`), or use a template whose environment has the package, or one with a network"
)


def is_offline():
    """Whether the gateway says that the session has no network."""
    return os.environ.get("HIMALIA_NETWORK") == "none"


def index():
    """The address of the gateway's index of packages, or None."""
    address = os.environ.get("PIP_INDEX_URL", "")
    return address if address.startswith(_INDEX) else None


def installs(command):
    """Whether a command, as text or as a list of words, lets pip install something."""
    if type(command) in (list, tuple):
        command = " ".join(word for word in command[:_WORDS] if type(word) is str)
    return type(command) is str and _INSTALLS.search(command[:10_000]) is not None


def hint(shell, problem, found):
    """For an error of the network in a session that has none."""
    if not is_offline():
        return None
    if _is_failed_install(problem):
        return NO_PACKAGES
    chain = _chain(problem)
    if any(map(_is_answered, chain)) or not any(map(_is_networks, chain)):
        return None
    own = ""
    if "seaborn" in sys.modules and "load_dataset" in (found.source or ""):
        own = "; seaborn's data sets are downloads"
    elif "fetch_" in (found.source or ""):
        own = "; sklearn.datasets.load_iris, load_diabetes, load_wine, load_digits and load_breast_cancer are installed"
    return f"this session has no network: put the file into the work directory (upload it), or use data that is there{own}"


def _chain(problem):
    seen = []
    while problem is not None and len(seen) < _CHAIN and not any(problem is one for one in seen):
        seen.append(problem)
        cause = _cause_of(problem)
        problem = cause if cause is not None else _context_of(problem)
    return seen


def _is_networks(problem):
    for module, name in _ERRORS:
        cls = statics.loaded_class(module, name)
        if cls is not None and statics.is_instance(problem, cls):
            return True
    return statics.is_instance(problem, OSError) and _errno_of(problem) in _UNREACHABLE


def _is_answered(problem):
    """Whether something was there that answered or refused: a program of the session, or the gateway."""
    answered = statics.loaded_class("urllib.error", "HTTPError")
    return statics.is_instance(problem, ConnectionError) or answered is not None and statics.is_instance(problem, answered)


def _is_failed_install(problem):
    cls = statics.loaded_class("subprocess", "CalledProcessError")
    return cls is not None and type(problem) is cls and installs((statics.instance_dict(problem) or {}).get("cmd"))
