"""MCP clients of a gateway: the official SDK, over HTTP and over `himalia mcp`, in both eras of the protocol."""

import contextlib
import os

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

# (transport, mode): `auto` begins with server/discover, `legacy` with initialize.
DOORS = [("http", "auto"), ("http", "legacy"), ("stdio", "auto"), ("stdio", "legacy")]


@contextlib.asynccontextmanager
async def agent(gateway, transport="http", mode="auto", token=None, **more):
    """A connected client; over HTTP also with another token than the gateway's. `more` goes to the SDK's Client."""
    async with contextlib.AsyncExitStack() as stack:
        if transport == "http":
            http = httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {token or gateway.token}"}, timeout=120, trust_env=False
            )
            await stack.enter_async_context(http)
            server = streamable_http_client(f"{gateway.url}mcp", http_client=http)
        else:
            options = ["--url", gateway.url, "--token-file", str(gateway.token_file)]
            parameters = StdioServerParameters(command=os.environ["HIMALIA_BIN"], args=["mcp", *options])
            log = stack.enter_context((gateway.directory / "mcp-log").open("a"))
            server = stdio_client(parameters, errlog=log)
        yield await stack.enter_async_context(Client(server, mode=mode, **more))


def run(function, *arguments):
    """Run an async function to its end, within the deadline of a slow machine."""

    async def bounded():
        with anyio.fail_after(100):
            return await function(*arguments)

    return anyio.run(bounded)


def text(result):
    """All text of a result, joined."""
    return "\n".join(block.text for block in result.content if block.type == "text")


def kinds(result):
    """The types of a result's content."""
    return [block.type for block in result.content]


def whole(result):
    """A result as JSON: in `_meta`, which hosts do not show to models."""
    return result.meta["himalia/result"]
