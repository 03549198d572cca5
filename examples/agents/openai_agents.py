"""An agent of the OpenAI Agents SDK whose tools are those of the gateway, over MCP: it starts a session, runs code, reads files.

    pip install openai-agents
    HIMALIA_URL=… HIMALIA_TOKEN=… OPENAI_API_KEY=… python openai_agents.py "What is the 20th prime number?"

The model is that of OPENAI_MODEL; OPENAI_BASE_URL points to another server that speaks the same API.
"""

import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

HIMALIA = {
    "url": os.environ["HIMALIA_URL"].rstrip("/") + "/mcp",
    "headers": {"Authorization": f"Bearer {os.environ['HIMALIA_TOKEN']}"},
    "timeout": 60,
}


async def main(task):
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(os.environ.get("OPENAI_MODEL", "gpt-5"), AsyncOpenAI())
    async with MCPServerStreamableHttp(HIMALIA, name="himalia", client_session_timeout_seconds=120) as himalia:
        agent = Agent("analyst", instructions="Create the session `primes` if there is none, and work in it.", model=model, mcp_servers=[himalia])
        answer = await Runner.run(agent, task)
        print(answer.final_output)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is the 20th prime number?"))
