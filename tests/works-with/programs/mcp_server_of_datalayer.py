import asyncio
import os
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM = str(Path(sys.executable).with_name("jupyter-mcp-server"))
ENV = {**os.environ, "JUPYTER_URL": os.environ["HIMALIA_URL"], "JUPYTER_TOKEN": os.environ["HIMALIA_TOKEN"]}


async def main():
    server = StdioServerParameters(command=PROGRAM, args=["start"], env=ENV)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def call(name, **arguments):
            return "\n".join(content.text for content in (await session.call_tool(name, arguments)).content)

        assert "python3" in await call("list_kernels")
        assert "42" in await call("execute_code", code="x = 6\nx * 7")
        assert "6" in await call("execute_code", code="x")
        # Notebooks need the server's files.
        assert "not found" in await call("use_notebook", notebook_name="n", notebook_path="n.ipynb", mode="create")


asyncio.run(main())
