"""Calls and questions that wait for a person, as generators of requests: each is given its answer, or the error of it.

A driver sends them, with or without blocking. What waits outlives the gateway, so a request that finds none is sent again for a while.
"""

import asyncio
import time
import uuid
from typing import NamedTuple

from himalia_inside.api import ask_request, call_request, info_request, prompt_request
from himalia_inside.errors import ApprovalNeeded, OutcomeUnknown, ToolFailed, ToolUnavailable, Withdrawn

# Seconds that one request waits for an answer; that a gateway may be away; between two attempts, and at most between two calls.
_WAIT = 50
_AWAY = 600
_PAUSE = 1
_LONG_PAUSE = 30
# Seconds that a server of tools may ask to wait before a call is repeated, and the statuses with which it does.
_MOST_AFTER = 60
_LATER = (429, 503)


class _Pause(NamedTuple):
    seconds: float


def persistent(request):
    """A request that may be sent again, for as long as a gateway may be away."""
    until = time.monotonic() + _AWAY
    while True:
        try:
            return (yield request)
        except ToolUnavailable:
            if time.monotonic() > until:
                raise
        yield _Pause(_PAUSE)


def _ended(prompt):
    """A prompt when it has ended."""
    while prompt["state"] == "open":
        prompt = yield from persistent(prompt_request(prompt["id"], _WAIT))
    return prompt


def asking(text, options, timeout):
    """Ask a person; the answer."""
    prompt = yield from persistent(ask_request(text, options, timeout, uuid.uuid4().hex))
    prompt = yield from _ended(prompt)
    if prompt["state"] != "answered":
        raise Withdrawn(f"the prompt was withdrawn: {prompt.get('reason')}", "prompt_withdrawn")
    return prompt["answer"]


def calling(tool, arguments, timeout, retries=0, line=None):
    """Call a tool, up to so many times again if nothing was done by it, or if it may be done twice; the reply."""
    pause = _PAUSE
    while True:
        try:
            return (yield from _calling(tool, arguments, timeout, line))
        except (ToolUnavailable, OutcomeUnknown, ToolFailed) as error:
            after = error.retry_after
            is_later = error.server_status in _LATER and (after is None or after <= _MOST_AFTER)
            if retries <= 0 or (isinstance(error, ToolFailed) and not is_later):
                raise
            if not isinstance(error, ToolUnavailable):
                info = yield from persistent(info_request(tool))
                if not (info["read_only"] or info["idempotent"]):
                    raise
        retries -= 1
        yield _Pause(pause if after is None else after)
        pause = min(pause * 2, _LONG_PAUSE)


def _calling(tool, arguments, timeout, line):
    """Call a tool, once a person has approved it if one has to; the reply."""
    key = uuid.uuid4().hex
    try:
        return (yield call_request(tool, arguments, timeout, line, None, key))
    except ApprovalNeeded as needed:
        prompt = needed.prompt
    yield from _ended({"id": prompt, "state": "open"})
    # Whatever came of it: the gateway says so.
    return (yield call_request(tool, arguments, timeout, line, prompt, key))


async def run(flow, ask, pause=asyncio.sleep):
    """Drive a generator. `ask` sends a request."""
    step = flow.send, None
    while True:
        try:
            request = step[0](step[1])
        except StopIteration as done:
            return done.value
        if isinstance(request, _Pause):
            await pause(request.seconds)
            step = flow.send, None
            continue
        try:
            step = flow.send, await ask(request)
        except Exception as error:  # it is the generator's
            step = flow.throw, error


def run_blocking(flow, ask):
    """The same, where `ask` blocks: nothing suspends the coroutine, so that it is done after one step."""

    async def asked(request):
        return ask(request)

    async def paused(seconds):
        time.sleep(seconds)

    try:
        run(flow, asked, paused).send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a request that blocks has suspended")
