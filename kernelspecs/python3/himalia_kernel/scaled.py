"""A smaller copy of an image that is larger than models take, in the metadata of its message under `himalia`: `{"preview": "…"}`.

The copy is a PNG in base64. It is made where Pillow is installed; the image itself stays as it is.
"""

import base64
import importlib.util
import io

from himalia_kernel.charts import KEY, png_size

# Pixels of a side that a copy has at most, pixels of an image that is scaled, and bytes of a copy.
SIDE = 2000
_PIXELS = 50_000_000
_BYTES = 1 << 20
_KINDS = ("image/png", "image/jpeg")


def install(formatter):
    """Let a `DisplayFormatter` add the copy."""
    plain = formatter.format

    def described(obj, include=None, exclude=None):
        data, metadata = plain(obj, include=include, exclude=exclude)
        try:
            copy = _copy(data)
        except Exception:  # an image that is shown without it is better than none
            copy = None
        return data, metadata | {KEY: metadata.get(KEY, {}) | {"preview": copy}} if copy else metadata

    formatter.format = described


def _copy(data):
    kind = next((kind for kind in _KINDS if kind in data), None)
    if kind is None:
        return None
    size = png_size(data[kind]) if kind == "image/png" else None
    # The size of a PNG is at its beginning; other images are looked at by Pillow.
    if size is not None and max(size) <= SIDE or importlib.util.find_spec("PIL") is None:
        return None
    from PIL import Image

    content = data[kind] if type(data[kind]) is bytes else base64.b64decode(data[kind])
    with Image.open(io.BytesIO(content)) as image:
        if max(image.size) <= SIDE or image.size[0] * image.size[1] > _PIXELS:
            return None
        image.load()
        small = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
    small.thumbnail((SIDE, SIDE))
    made = io.BytesIO()
    small.save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode() if made.tell() <= _BYTES else None
