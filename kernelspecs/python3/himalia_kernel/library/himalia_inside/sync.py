"""The same functions for code that does not await. They block the thread, and with it the event loop that runs in it."""

import time

from himalia_inside import blocking, models, people, saving
from himalia_inside.api import calling_line, info_request, search_request, servers_request, value_of
from himalia_inside.skill_runs import blocking_skills as skills

__all__ = ["ask", "call", "call_to_file", "call_tool", "get_tool_info", "list_api_servers", "llm", "llm_map", "skills", "tools_search"]


def list_api_servers():
    """The servers whose tools this session may use."""
    return blocking.answer(servers_request())


def tools_search(query="", server=None, limit=10):
    """Tools that fit some words, of one server or of all; without words, the first ones."""
    return blocking.answer(search_request(query, server, limit))


def get_tool_info(tool):
    """All about a tool: the schema of its arguments, an example, what it returns and what it changes."""
    return blocking.answer(info_request(tool))


def call_tool(tool, arguments=None, timeout=None, retries=0):
    """Call a tool with a dict of arguments; `timeout` is in seconds. Return the whole `Reply`. `retries` as for the function that awaits."""
    return people.run_blocking(people.calling(tool, arguments, timeout, retries, calling_line()), blocking.answer)


def call_to_file(tool, path, /, **arguments):
    """Call a tool and write what it returns to a file, as the function that awaits does."""
    path = saving.check(path)
    return saving.save(path, call_tool(tool, arguments))


def ask(text, options=None, timeout=None):
    """Ask a person, and return the answer: one of the options, if there are some. `timeout` is in seconds, by default a day."""
    return people.run_blocking(people.asking(text, options, timeout), blocking.answer)


def call(tool, /, **arguments):
    """Call a tool, as `call("orders.list_orders", limit=5)`. Return what it returns: its content, or a `Reply` if there are files."""
    return value_of(call_tool(tool, arguments))


def llm(prompt, model=None, system=None, max_tokens=None, temperature=None, schema=None, cache=None):
    """Ask a language model of the gateway, and return its text, or with a schema a value."""
    request = models.request(prompt, model, system, max_tokens, temperature, schema, cache, line=calling_line())
    return models.ask_blocking(request, blocking.ask, time.sleep)


def llm_map(prompts, parallel=models.PARALLEL, return_errors=False, **options):
    """The answers of `llm` to many prompts, in their order, so many at once."""
    line = calling_line()

    def one(prompt):
        return models.ask_blocking(models.request(prompt, **options, line=line), blocking.ask, time.sleep)

    return models.map_blocking(one, prompts, parallel, return_errors)
