"""An agent of LangGraph that works in a live Python session: what one step defines, the next one uses.

    pip install langgraph langchain-openai himalia
    HIMALIA_URL=… HIMALIA_TOKEN=… OPENAI_API_KEY=… python langgraph_agent.py "What is the 20th prime number?"

The model is that of OPENAI_MODEL; OPENAI_BASE_URL points to another server that speaks the same API.
"""

import os
import sys

from himalia import Gateway
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def main(task):
    with Gateway(caller="langgraph") as gateway, gateway.session() as session:

        @tool
        def run_python(code: str) -> str:
            """Runs Python code in a session whose variables stay. Returns what it printed and the value of its last expression."""
            result = session.execute(code, timeout_s=60)
            if result.error:
                return f"{result.error.name}: {result.error.value}\n{result.error.hint or ''}"
            return result.text + (result.value or "")

        model = ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-5")).bind_tools([run_python])
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode([run_python]))
        graph.add_edge(START, "model").add_conditional_edges("model", tools_condition).add_edge("tools", "model")
        answer = graph.compile().invoke({"messages": [("user", task)]})
        print(answer["messages"][-1].text)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "What is the 20th prime number?")
