"""docs/reference/limits.md has one fact in a row, and the values of the facades are those of the code."""

import re

import pytest
from pages import ROOT

PAGE = ROOT / "docs" / "reference" / "limits.md"
CONST = re.compile(r"pub\(crate\) const (\w+): \w+ = (.+);")
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def tables():
    """{title: {first cell: the other cells}}"""
    found = {}
    for part in re.split(r"^##+ ", PAGE.read_text(), flags=re.M)[1:]:
        rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
        found[part.splitlines()[0]] = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
    return found


def constants(crate):
    """{name: value} of the bounds of a facade; times are in seconds."""
    text = (ROOT / "crates" / crate / "src" / "limits.rs").read_text()
    times = {"from_secs": 1, "from_mins": 60, "from_millis": 0.001}
    found = {}
    for name, value in CONST.findall(text):
        value = re.sub(r"Duration::(\w+)\(([\d_]+)\)", lambda time: f"{time[2]} * {times[time[1]]}", value)
        assert re.fullmatch(r"[\d_.<* ]+", value), value
        found[name] = eval(value)  # Digits and operators only.
    return found


def written(name, value):
    """A value as the page writes it."""
    if name.endswith("_BYTES") or "_BYTES_" in name:
        return next((f"{value // size} {unit}" for size, unit in UNITS if value % size == 0), f"{value} bytes")
    return f"{value:,.1f}".removesuffix(".0")


SHOWN = [
    ("azure", "Clients of Azure's dynamic sessions", "message", "MESSAGE_BYTES"),
    ("azure", "Clients of Azure's dynamic sessions", "run time of code", "RUN_TIME"),
    ("azure", "Clients of Azure's dynamic sessions", "each stream, and the text of a value", "TEXT_BYTES"),
    ("azure", "Clients of Azure's dynamic sessions", "image", "IMAGE_BYTES"),
    ("azure", "Clients of Azure's dynamic sessions", "identifier", "IDENTIFIER_CHARS"),
    ("openai", "Clients of OpenAI's containers", "message", "MESSAGE_BYTES"),
    ("openai", "Clients of OpenAI's containers", "name of a container", "NAME_CHARS"),
    ("openai", "Clients of OpenAI's containers", "`expires_after`", "MINUTES"),
    ("openai", "Clients of OpenAI's containers", "elements of a page", "LISTED"),
    ("openai", "Clients of OpenAI's containers", "elements of a page", "LISTED_MOST"),
    ("openai", "Clients of OpenAI's containers", "depth of directories in a list", "DEPTH"),
    ("e2b", "Clients of E2B", "message", "MESSAGE_BYTES"),
    ("e2b", "Clients of E2B", "`timeout` of a sandbox", "TIMEOUT_S"),
    ("e2b", "Clients of E2B", "`Idempotency-Key`", "KEY_BYTES"),
    ("e2b", "Clients of E2B", "sandboxes in a page", "LISTED"),
    ("e2b", "Clients of E2B", "sandboxes in a page", "LISTED_MOST"),
    ("e2b", "Clients of E2B", "silence of a running execution or command", "SILENCE"),
    ("e2b", "Clients of E2B", "pause between two looks at a watched directory", "LOOK"),
    ("e2b", "Clients of E2B", "depth of a watched directory with `recursive`", "WATCH_DEPTH"),
    ("e2b", "Clients of E2B", "watched directories of a sandbox", "WATCHERS_PER_SANDBOX"),
    ("e2b", "Clients of E2B", "watched directories of an owner", "WATCHERS_PER_OWNER"),
    ("e2b", "Clients of E2B", "image or other large value of a result", "VALUE_BYTES"),
    ("e2b", "Clients of E2B", "files in one form", "FILES_PER_REQUEST"),
    ("e2b", "Clients of E2B", "name of one metadata of a file", "METADATA_NAME_BYTES"),
    ("e2b", "Clients of E2B", "all metadata of a file", "METADATA_BYTES"),
    ("e2b", "Clients of E2B", "rest of a refused upload", "REST_BYTES"),
    ("e2b", "Clients of E2B", "rest of a refused upload", "REST_TIME"),
    ("e2b", "Clients of E2B", "compressed body", "UNPACKED_BYTES"),
    ("mcp", "MCP", "message", "MESSAGE_BYTES"),
    ("mcp", "MCP", "`wait_s`", "WAIT_MOST"),
    ("mcp", "MCP", "wait of a response without `wait_s`", "WAIT"),
    ("mcp", "MCP", "bytes of images in a reply (`image_bytes`)", "IMAGE_BYTES"),
    ("mcp", "MCP", "bytes of images in a reply (`image_bytes`)", "IMAGE_BYTES_MOST"),
    ("mcp", "MCP", "pixels on a side of an image in a reply", "IMAGE_PIXELS"),
    ("mcp", "MCP", "images in a reply", "IMAGES"),
    ("mcp", "MCP", "links in a reply", "LINKS"),
    ("mcp", "MCP", "`limit` of `get_output`", "PAGE_BYTES"),
    ("mcp", "MCP", "`limit` of `get_output`", "PAGE_BYTES_MOST"),
    ("mcp", "MCP", "`limit` of `files` when it lists", "FILES"),
    ("mcp", "MCP", "`limit` of `files` when it lists", "FILES_MOST"),
    ("mcp", "MCP", "resource", "RESOURCE_BYTES"),
    ("mcp", "MCP", "sessions in a list", "SESSIONS"),
    ("mcp", "MCP", "executions in a list", "EXECUTIONS"),
    ("mcp", "MCP", "rows of `inspect_variables`", "ROWS"),
    ("mcp", "MCP", "rows of `inspect_variables`", "ROWS_MOST"),
    ("mcp", "MCP", "line in a progress notification", "PROGRESS_CHARS"),
]


@pytest.mark.parametrize("crate, title, row, name", SHOWN, ids=[f"{crate}-{name}" for crate, _, _, name in SHOWN])
def test_a_value_is_that_of_the_code(crate, title, row, name):
    shown = tables()[title][row][0]
    value = written(name, constants(crate)[name])
    assert re.search(rf"(?<![\d.,]){re.escape(value)}(?![\d.])", shown), f"{row}: {shown} and not {value}"


def test_a_row_has_one_fact():
    packed = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and ";" in re.sub(r"`[^`]*`", "", line)]
    assert packed == []
