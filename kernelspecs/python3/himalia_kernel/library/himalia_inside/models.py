"""Language models of the gateway: requests, and what is made of their responses."""

import asyncio
import json
import random
from concurrent.futures import ThreadPoolExecutor

from himalia_inside.api import Request, base, encoded
from himalia_inside.errors import ModelError, ModelLimit, UnknownModel

# A server that is busy is asked again after these seconds, and up to as many more by chance.
_PAUSES = (1, 2, 4, 8, 16)
_BUSY = (429, 503)
# Prompts of a map that are asked at once, by default.
PARALLEL = 8


class _Busy(Exception):
    """The server, or the gateway, can do it later."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


def request(prompt, model=None, system=None, max_tokens=None, temperature=None, schema=None, cache=None, *, line):
    """One question from a line of the cell; the answer is a text, or with a schema a value."""
    messages = [{"role": "system", "content": system}] if system is not None else []
    messages += [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    asked = {"messages": messages}
    for name, value in (("model", model), ("max_completion_tokens", max_tokens), ("temperature", temperature)):
        if value is not None:
            asked[name] = value
    if schema is not None:
        form = {"name": "answer", "schema": schema, "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": form}
    headers = {} if cache is None else {"x-himalia-cache": "true" if cache else "false"}
    if line is not None:
        headers["x-himalia-line"] = str(line)
    body = encoded(asked)

    def read(answer):
        return _answer(answer, schema is not None)

    return Request("POST", f"{base()[0]}/llm/v1/chat/completions", body, read, True, headers)


def _answer(answer, structured):
    choice = answer["choices"][0]
    message = choice["message"]
    text = message.get("content")
    if text is None:
        raise ModelError(f"the model gives no text: {message.get('refusal') or json.dumps(message)[:500]}", "no_text", 200)
    if not structured:
        return text
    try:
        return json.loads(text)
    except ValueError:
        reason = "its end is missing (max_tokens)" if choice.get("finish_reason") == "length" else "it is no JSON"
        raise ModelError(f"the answer does not fit the schema: {reason}: {text[:500]}", "bad_answer", 200) from None


def answer_of(request, response):
    """The answer of a response, which is (status, body)."""
    status, body = response
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {"error": {"message": body[:1000].decode(errors="replace").strip()}}
        status = status if status >= 400 else 502
    if status < 400:
        return request.read(answer)
    error = _error(status, answer.get("error") if isinstance(answer, dict) else None)
    raise _Busy(error) if status in _BUSY and not isinstance(error, ModelLimit) else error


def _error(status, problem):
    problem = problem if isinstance(problem, dict) else {"message": str(problem)}
    code = str(problem.get("code") or problem.get("type") or "model_failed")
    kind = {"model_limit": ModelLimit, "model_not_found": UnknownModel}.get(code, ModelError)
    return kind(str(problem.get("message", f"the model's server answered {status}")), code, status, problem.get("hint"))


def _pauses():
    for seconds in _PAUSES:
        yield seconds * (1 + random.random())


async def ask(request, send):
    """Ask once more, later, while the server is busy."""
    for pause in _pauses():
        try:
            return answer_of(request, await send(request))
        except _Busy:
            await asyncio.sleep(pause)
    return _last(request, await send(request))


def ask_blocking(request, send, sleep):
    """The same, blocking the thread."""
    for pause in _pauses():
        try:
            return answer_of(request, send(request))
        except _Busy:
            sleep(pause)
    return _last(request, send(request))


def _last(request, response):
    try:
        return answer_of(request, response)
    except _Busy as busy:
        raise busy.error from None


async def map_all(ask_one, prompts, parallel, return_errors):
    """The answers of all prompts, in their order. The first error ends those that have not begun, unless errors are answers."""
    turns = asyncio.Semaphore(_checked(parallel))

    async def one(prompt):
        async with turns:
            return await ask_one(prompt)

    tasks = [asyncio.ensure_future(one(prompt)) for prompt in prompts]
    try:
        return await asyncio.gather(*tasks, return_exceptions=return_errors)
    finally:
        for task in tasks:
            task.cancel()


def map_blocking(ask_one, prompts, parallel, return_errors):
    """The same with threads."""

    def one(prompt):
        try:
            return ask_one(prompt)
        except ModelError as error:
            if return_errors:
                return error
            raise

    pool = ThreadPoolExecutor(_checked(parallel))
    try:
        return list(pool.map(one, prompts))
    finally:
        pool.shutdown(cancel_futures=True)


def _checked(parallel):
    if parallel < 1:
        raise ValueError("parallel: is not 1 or more")
    return parallel
