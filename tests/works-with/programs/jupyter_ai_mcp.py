import asyncio
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from jupyter_ai_persona_manager import PersonaManager
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def settings(directory):
    """What Jupyter AI gives to its agents: its own reading of `.jupyter/mcp_settings.json`."""
    server = {
        "name": "himalia",
        "command": os.environ["HIMALIA_BIN"],
        "args": ["mcp", "--url", os.environ["HIMALIA_URL"], "--token-file", os.environ["HIMALIA_TOKEN_FILE"]],
    }
    (Path(directory) / "mcp_settings.json").write_text(json.dumps({"mcp_servers": [server]}))
    log = SimpleNamespace(info=print, warning=print, exception=print)
    manager = SimpleNamespace(get_dotjupyter_dir=lambda: directory, builtin_mcp_servers=[], log=log)
    (found,) = PersonaManager.get_mcp_settings(manager).mcp_servers
    return found


async def main(server):
    # The token is in the file only, as for a host that knows no variables of the gateway.
    env = {name: value for name, value in os.environ.items() if not name.startswith("HIMALIA_")}
    env |= {one.name: one.value for one in server.env}
    parameters = StdioServerParameters(command=server.command, args=server.args, env=env)
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()

        async def call(name, /, **arguments):
            return "\n".join(content.text for content in (await session.call_tool(name, arguments)).content if content.type == "text")

        await call("session", op="create", name="jupyter-ai", attach=True)
        assert "42" in await call("execute", session="jupyter-ai", code="x = 6\nx * 7")
        assert "6" in await call("execute", session="jupyter-ai", code="x")
        await call("session", op="end", session="jupyter-ai")


with TemporaryDirectory() as directory:
    asyncio.run(main(settings(directory)))
