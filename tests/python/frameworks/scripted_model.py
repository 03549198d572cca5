"""A model that follows a script, behind the APIs of OpenAI (chat completions) and Anthropic (messages).

It answers the first request of a task with the first step, each result of a tool with the next one, and the last result with a sentence
that has it. `seen` has the results that agents sent.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What the model does, one call after the other: the second uses a variable of the first.
STEPS = [
    "primes = [n for n in range(2, 100) if all(n % d for d in range(2, n))]\nprint(len(primes), 'primes')",
    "primes[19]",
]
SESSION = "agents"


class ScriptedModel:
    """Listens on a port of its own while the block runs."""

    def __enter__(self):
        model = self
        self.seen = []

        class Handler(_Handler):
            script = model

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def step(self, results, tools):
        """The next call as `(tool, arguments)`, or a text. `tools` are those that the agent offers: name and schema of the arguments."""
        self.seen.extend(results[len(self.seen) :])
        steps = [("execute$|run_python", {"code": code}) for code in STEPS]
        # The tools of the gateway name the session of each call.
        if any(name.endswith("session") for name, _ in tools):
            steps = [(kind, {**arguments, "session": SESSION}) for kind, arguments in steps]
            steps.insert(0, ("session$", {"op": "create", "name": SESSION, "attach": True}))
        if len(results) < len(steps):
            kind, arguments = steps[len(results)]
            return next(name for name, _ in tools if re.search(kind, name)), arguments
        found = re.search(r"\b71\b", results[-1])
        return None, f"The 20th prime is {found[0]}." if found else f"This is no answer: {results}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(b"")

    def do_GET(self):
        self.answer(b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            self.openai(body)
        elif path.endswith("/messages/count_tokens"):
            self.answer(b'{"input_tokens": 10}')
        elif path.endswith("/messages"):
            self.anthropic(body)
        else:
            self.answer(b"{}")

    def openai(self, body):
        tools = [(tool["function"]["name"], tool["function"].get("parameters") or {}) for tool in body.get("tools") or []]
        if tools:
            results = [_text(one["content"]) for one in body["messages"] if one["role"] == "tool"]
            name, what = self.script.step(results, tools)
            call = {"id": f"call_{len(results)}", "type": "function", "function": {"name": name, "arguments": json.dumps(what)}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]} if name else {"role": "assistant", "content": what}
        else:
            message = {"role": "assistant", "content": self.code(body["messages"])}
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage}
        self.answer(json.dumps(whole).encode())

    def code(self, messages):
        """For an agent whose calls are code: the observations of its steps are messages."""
        results = [_text(one["content"]) for one in messages if "Observation" in _text(one["content"])[:40]]
        self.script.seen.extend(results[len(self.script.seen) :])
        code = STEPS[0] if not results else "final_answer(f'The 20th prime is {primes[19]}.')"
        return f"Thought: the next step.\n<code>\n{code}\n</code>"

    def anthropic(self, body):
        tools = [(tool["name"], tool.get("input_schema") or {}) for tool in body.get("tools") or []]
        blocks = [block for one in body["messages"] if isinstance(one["content"], list) for block in one["content"]]
        results = [_text(block.get("content")) for block in blocks if block.get("type") == "tool_result"]
        offered = any(re.search("execute", name) for name, _ in tools)
        name, what = self.script.step(results, tools) if offered else (None, "A task.")
        block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": name, "input": what} if name else {"type": "text", "text": what}
        stop = "tool_use" if name else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": body["model"], "content": [], "stop_reason": None,
                   "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            self.answer(json.dumps({**message, "content": [block], "stop_reason": stop}).encode())
            return
        empty = {**block, "input": {}} if name else {**block, "text": ""}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(what)} if name else {"type": "text_delta", "text": what}
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.answer(text.encode(), "text/event-stream")

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _text(content):
    """The text of a message, which may come in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text") or part.get("content") or "") for part in content)
    return content or ""
