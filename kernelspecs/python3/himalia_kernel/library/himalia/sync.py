"""The functions of `himalia` for code that does not await."""

from himalia_inside.sync import *  # noqa: F403
from himalia_inside.sync import __all__  # noqa: F401
