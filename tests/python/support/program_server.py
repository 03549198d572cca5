"""A server of MCP as a program that speaks over its standard input and output."""

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
server = MCPServer("program")


@server.tool(annotations=READS)
def look(path: str) -> dict:
    """Say where the program runs, and whether a file is there."""
    return {
        "pid": os.getpid(),
        "cwd": os.getcwd(),
        "is_there": Path(path).exists(),
        "greeting": os.environ.get("GREETING", ""),
        "arguments": sys.argv[1:],
    }


@server.tool(annotations=READS)
def long(size: int) -> str:
    """Say much."""
    return "x" * size


@server.tool(annotations=READS)
def noise() -> str:
    """Print what is no message."""
    os.write(1, b"loading the data ...\n")
    os.write(2, b"a warning\n")
    return "done"


@server.tool(annotations=READS)
def end() -> str:
    """End the program within the call."""
    os.write(2, b"its data are broken\n")
    os._exit(3)


if __name__ == "__main__":
    server.run("stdio")
