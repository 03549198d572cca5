"""Nested progress bars, as tqdm writes them and cut anywhere, are a line each in the text over REST and in the notebook."""

import io
import random

import nbformat
import pytest
from tqdm import tqdm


class Written(io.StringIO):
    """All that is written, in its pieces."""

    def __init__(self):
        super().__init__()
        self.pieces = []

    def write(self, text):
        self.pieces.append(text)
        return super().write(text)


def both_stay():
    """Two bars of which the inner one is begun anew for each round of the outer one."""
    file = Written()
    options = {"file": file, "mininterval": 0, "miniters": 1, "ascii": True, "ncols": 70}
    outer, inner = tqdm(range(3), desc="outer", **options), tqdm(total=5, desc="inner", **options)
    for _ in outer:
        inner.reset()
        for _ in range(5):
            inner.update()
    pieces = list(file.pieces)
    inner.disable = True
    return pieces, ["outer: 100%|", "inner: 100%|"]


def inner_ones_go():
    """Inner bars that leave nothing, and what follows takes their line."""
    file = Written()
    options = {"file": file, "mininterval": 0, "miniters": 1, "ascii": True, "ncols": 70}
    for _ in tqdm(range(3), desc="outer", **options):
        for _ in tqdm(range(4), desc="inner", leave=False, **options):
            pass
    return [*file.pieces, "\rdone\x1b[K\n"], ["outer: 100%|", "done"]


def cut(text, seed):
    """The same text in other pieces."""
    source = random.Random(seed)
    pieces = []
    while text:
        at = source.randint(1, 30)
        pieces.append(text[:at])
        text = text[at:]
    return pieces


@pytest.mark.parametrize("bars", [both_stay, inner_ones_go])
def test_nested_bars_are_a_line_each(gateway, bars):
    session = gateway.start_session()
    pieces, wanted = bars()
    text = "".join(pieces)
    assert "\x1b[A" in text, "tqdm goes up"
    for seed, written in enumerate([pieces, [text], cut(text, 1), cut(text, 2)]):
        code = f"import sys\nfor piece in {written!r}: sys.stderr.write(piece); sys.stderr.flush()"
        reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code}, timeout=120).json()
        lines = reply["text"].rstrip().split("\n")
        assert [line[: len(begin)] for line, begin in zip(lines, wanted, strict=True)] == wanted, (seed, lines)
        page = gateway.http.get(f"v1/executions/{reply['id']}/output").json()
        assert page["text"] == reply["text"]
        book = nbformat.reads(gateway.http.get(f"v1/sessions/{session}/notebook.ipynb").text, as_version=4)
        nbformat.validate(book)
        assert book.cells[-1].outputs[0]["text"].rstrip().split("\n") == lines
