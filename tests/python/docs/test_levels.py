"""Isolation levels that pages name are levels of the gateway."""

import json
import re

import pytest
from pages import ROOT, pages

NAMED = re.compile(r'isolation\s*=\s*"([^"]+)"|--isolation[ =]([a-z]\w*)')
DESCRIBED = json.loads((ROOT / "docs" / "openapi.json").read_text())["components"]["schemas"]["Isolation"]["enum"]
LEVELS = {"auto", *DESCRIBED}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_levels_exist(page):
    found = {one or other for one, other in NAMED.findall(page.read_text())}
    assert found <= LEVELS, found - LEVELS
