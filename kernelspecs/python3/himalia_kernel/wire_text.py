"""Messages as UTF-8, whatever text code has put into them."""

import json

from jupyter_client.jsonutil import json_clean, json_default
from jupyter_client.session import json_packer


def pack(content):
    """As jupyter_client packs. Half of a surrogate pair, as in names of files that are not UTF-8, becomes U+FFFD: with it a message
    is no UTF-8, which readers drop, or cannot be made at all.
    """
    try:
        packed = json_packer(content)
        packed.decode()
        return packed
    except UnicodeError:
        text = json.dumps(json_clean(content), default=json_default, ensure_ascii=False)
        # Two halves that belong together become their character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
