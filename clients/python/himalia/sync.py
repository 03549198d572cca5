"""In a kernel of a session: calls of tools for code that does not await. Elsewhere there is nothing to import."""

from himalia_inside.sync import *  # noqa: F403
from himalia_inside.sync import __all__  # noqa: F401
