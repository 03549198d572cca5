"""The servers of a session, each a module with its tools as functions. Only for code in the kernel of a session."""

import importlib.util

if importlib.util.find_spec("himalia_inside") is None:
    raise ImportError("himalia.servers is for code in the kernel of a session")

from himalia_inside.servers import install, names  # noqa: E402

install()


def __dir__() -> list[str]:
    return sorted(names())
