"""Tools of the gateway's servers, for code in a session. Imported as `himalia`.

Only the standard library. Requests go to `http://himalia.internal/` by the proxy of the sandbox, and need no token: the connection says
which session it is of.
"""

from himalia_inside import connections, models, people, saving, sync
from himalia_inside.api import calling_line, info_request, search_request, servers_request, value_of
from himalia_inside.errors import (
    ApprovalNeeded,
    InvalidArguments,
    ModelError,
    ModelLimit,
    OutcomeUnknown,
    ReplyTooLarge,
    SkillFailed,
    ToolDenied,
    ToolError,
    ToolFailed,
    ToolLimit,
    ToolTimeout,
    ToolUnavailable,
    UnknownModel,
    UnknownServer,
    UnknownSkill,
    UnknownTool,
    Withdrawn,
)
from himalia_inside.skill_runs import skills

__all__ = [
    "ApprovalNeeded",
    "InvalidArguments",
    "ModelError",
    "ModelLimit",
    "OutcomeUnknown",
    "ReplyTooLarge",
    "SkillFailed",
    "ToolDenied",
    "ToolError",
    "ToolFailed",
    "ToolLimit",
    "ToolTimeout",
    "ToolUnavailable",
    "UnknownModel",
    "UnknownServer",
    "UnknownSkill",
    "UnknownTool",
    "Withdrawn",
    "ask",
    "call",
    "call_to_file",
    "call_tool",
    "get_tool_info",
    "list_api_servers",
    "llm",
    "llm_map",
    "skills",
    "sync",
    "tools_search",
]


async def list_api_servers():
    """The servers whose tools this session may use."""
    return await connections.answer(servers_request())


async def tools_search(query="", server=None, limit=10):
    """Tools that fit some words, of one server or of all; without words, the first ones."""
    return await connections.answer(search_request(query, server, limit))


async def get_tool_info(tool):
    """All about a tool: the schema of its arguments, an example, what it returns and what it changes."""
    return await connections.answer(info_request(tool))


def call_tool(tool, arguments=None, timeout=None, retries=0):
    """Call a tool with a dict of arguments; `timeout` is in seconds. To be awaited; returns the whole `Reply`.

    If a person has to approve the call, it waits for that; the time of the execution stands still meanwhile. It is called again, up to
    `retries` times, if nothing was done, and if it is not known whether it was done and a second call changes nothing.
    """
    # The line is that of the call, also if the coroutine runs later, in a task.
    return people.run(people.calling(tool, arguments, timeout, retries, calling_line()), connections.answer)


def call_to_file(tool, path, /, **arguments):
    """Call a tool and write what it returns to a file. To be awaited; returns a `Saved`: path, bytes, rows, and the files of the reply.

    `.arrow` and `.parquet` are tables, `.jsonl` has a line for each row: the reply is a list of objects, or has one as a member. All other
    files are JSON, or the text of the reply.
    """
    path = saving.check(path)
    return _then(call_tool(tool, arguments), lambda reply: saving.save(path, reply))


async def ask(text, options=None, timeout=None):
    """Ask a person, and return the answer: one of the options, if there are some. `timeout` is in seconds, by default a day.

    The time of the execution stands still meanwhile, and the question outlives the gateway. `Withdrawn`: no person has answered.
    """
    return await people.run(people.asking(text, options, timeout), connections.answer)


def call(tool, /, **arguments):
    """Call a tool, as `await call("orders.list_orders", limit=5)`. To be awaited; returns what the tool returns.

    That is its content; if there are files too, it is the whole `Reply`. Many calls at once: `asyncio.gather`. A call is made once: if it
    is not known whether it was done, `OutcomeUnknown` says so.
    """
    return _then(call_tool(tool, arguments), value_of)


async def _then(awaited, function):
    return function(await awaited)


def llm(prompt, model=None, system=None, max_tokens=None, temperature=None, schema=None, cache=None):
    """Ask a language model of the gateway. To be awaited; returns its text. `prompt` is a text, or a list of messages as OpenAI's API has them.

    `model` is by default the first one of the session. With `schema`, a JSON Schema, the answer is a value that fits it. The same request
    with the temperature 0 is answered once, and with `cache=True` any request. A server that is busy is asked again for a minute.
    """
    # The line is that of the call, also if the coroutine runs later, in a task.
    request = models.request(prompt, model, system, max_tokens, temperature, schema, cache, line=calling_line())
    return models.ask(request, connections.ask)


def llm_map(prompts, parallel=models.PARALLEL, return_errors=False, **options):
    """The answers of `llm` to many prompts, in their order, so many at once. To be awaited.

    `options` are those of `llm`. The first error ends the map; with `return_errors` errors stand in the place of their answers.
    """

    line = calling_line()

    def one(prompt):
        return models.ask(models.request(prompt, **options, line=line), connections.ask)

    return models.map_all(one, prompts, parallel, return_errors)
