"""The servers of this session, each a module with its tools as functions: `from himalia.servers import orders`."""

from himalia_inside.servers import install, names

install()


def __dir__():
    return sorted(names())
