"""An agent of the Claude Agent SDK whose only tools are those of the gateway, over MCP.

    pip install claude-agent-sdk
    HIMALIA_URL=… HIMALIA_TOKEN=… ANTHROPIC_API_KEY=… python claude_agent.py "What is the 20th prime number?"

ANTHROPIC_BASE_URL points to another server that speaks the same API.
"""

import asyncio
import os
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

HIMALIA = {
    "type": "http",
    "url": os.environ["HIMALIA_URL"].rstrip("/") + "/mcp",
    "headers": {"Authorization": f"Bearer {os.environ['HIMALIA_TOKEN']}"},
}


async def main(task):
    options = ClaudeAgentOptions(
        mcp_servers={"himalia": HIMALIA},
        tools=[],  # No shell and no files of this machine.
        allowed_tools=["mcp__himalia"],
        setting_sources=[],
        system_prompt="Create the session `primes` if there is none, and work in it.",
        max_turns=20,
    )
    async for message in query(prompt=task, options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is the 20th prime number?"))
