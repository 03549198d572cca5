"""What code in a session of Himalia may ask the gateway for: tools of its servers, without a token.

>>> import himalia
>>> himalia.sync.list_api_servers()  # doctest: +SKIP
>>> await himalia.call("orders.list_orders", limit=5)  # doctest: +SKIP

The client of the gateway is a package of this name too. Where that is installed, it is imported, and has all of this.
"""

from himalia_inside import *  # noqa: F403
from himalia_inside import __all__, sync  # noqa: F401
