"""A code agent of smolagents whose Python runs in a session of the gateway, and not in the process of the agent.

    pip install 'smolagents[openai]' himalia
    HIMALIA_URL=… HIMALIA_TOKEN=… OPENAI_API_KEY=… python smolagents_agent.py "What is the 20th prime number?"

The model is that of OPENAI_MODEL; OPENAI_BASE_URL points to another server that speaks the same API.
"""

import os
import sys

from himalia import Gateway
from smolagents import CodeAgent, OpenAIServerModel
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import RemotePythonExecutor


class HimaliaExecutor(RemotePythonExecutor):
    """Runs each step of an agent in one session. Tools become functions there, `final_answer` among them."""

    def __init__(self, session):
        super().__init__(additional_imports=[], logger=AgentLogger())
        self.session = session

    def run_code_raise_errors(self, code):
        result = self.session.execute(code, timeout_s=120)
        if result.error and result.error.name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(self._deserialize_final_answer(result.error.value), result.text, is_final_answer=True)
        return CodeOutput(result.check().value, result.text, is_final_answer=False)

    def install_packages(self, additional_imports):
        return additional_imports


def main(task):
    model = OpenAIServerModel(os.environ.get("OPENAI_MODEL", "gpt-5"), api_base=os.environ.get("OPENAI_BASE_URL"))
    with Gateway(caller="smolagents") as gateway, gateway.session() as session:
        agent = CodeAgent(tools=[], model=model, executor=HimaliaExecutor(session), verbosity_level=0)
        print(agent.run(task))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "What is the 20th prime number?")
