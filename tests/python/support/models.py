"""A server of language models like OpenAI's, whose model follows a script: it reads the question, and nothing else."""

import collections
import http.server
import json
import re
import threading

class Model:
    """Listens on a port of its own. `requests` has the bodies of all requests, `keys` their credentials, `seen` how often
    each last message came.

    The text of the last message says what it does:

    - `echo TEXT` answers TEXT, `who` the credential of the request, `count` how many requests there were
    - `busy N` is 429 with Retry-After for the first N times, `broken` is no JSON, `drop` closes the connection
    - `hold NAME` waits for `release`; a stream sends its first word before
    - after a message of the system with `COUNT` it counts the parcels that were lost, by place, also from counts; with `CONCLUDE` it says it
      in a sentence
    """

    def __init__(self):
        self.requests, self.keys = [], []
        self.seen = collections.Counter()
        self.gates = collections.defaultdict(threading.Event)
        self.lock = threading.Lock()
        model = self

        class Handler(_Handler):
            script = model

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def release(self, name):
        """Answers the requests that hold by this name."""
        self.gates[name].set()

    def close(self):
        """Ends it."""
        for gate in list(self.gates.values()):
            gate.set()
        self.server.shutdown()
        self.server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.script.lock:
            self.script.requests.append(body)
            self.script.keys.append(self.headers.get("Authorization"))
        if self.path.endswith("/embeddings"):
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            data = [{"object": "embedding", "index": n, "embedding": [len(text), 0.5]} for n, text in enumerate(texts)]
            self.answer({"object": "list", "data": data, "model": body["model"], "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)}})
            return
        messages = body["messages"]
        text = messages[-1]["content"]
        word, _, rest = text.partition(" ")
        with self.script.lock:
            self.script.seen[text] += 1
            times = self.script.seen[text]
        if word == "busy" and times <= int(rest):
            self.answer({"error": {"message": "slow down", "type": "rate_limit", "code": "rate_limit"}}, 429, {"retry-after": "0", "x-secret": "no"})
        elif word == "broken":
            self.send(b"<p>", 200, "application/json", {})
        elif word == "drop":
            self.close_connection = True
        elif body.get("stream"):
            self.stream(body, text)
        else:
            if word == "hold":
                self.script.gates[rest].wait(60)
            usage = {"prompt_tokens": len(text) // 4, "completion_tokens": 3, "total_tokens": len(text) // 4 + 3}
            message = {"role": "assistant", "content": self.says(messages, word, rest)}
            choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
            self.answer({"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": usage})

    def says(self, messages, word, rest):
        system = messages[0]["content"] if messages[0]["role"] == "system" else ""
        if "COUNT" in system or "CONCLUDE" in system:
            text = messages[-1]["content"]
            where = collections.Counter(re.findall(r"^parcel \d+, (\w+), .* was lost$", text, re.MULTILINE))
            for place, number in re.findall(r"(\w+): (\d+);", text):
                where[place] += int(number)
            if "COUNT" in system:
                return " ".join(f"{place}: {number};" for place, number in where.items())
            most = where.most_common(1)[0]
            return f"{where.total()} were lost, most of them in {most[0]} ({most[1]})."
        if word == "who":
            return self.headers.get("Authorization", "none")
        if word == "json":
            return json.dumps({"city": rest})
        return {"echo": rest, "count": str(len(self.script.requests))}.get(word, word)

    def stream(self, body, text):
        """Two words, and in between it may be held."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        word, _, rest = text.partition(" ")
        self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "one "}, "finish_reason": None}]}, body)
        if word == "hold":
            self.script.gates[rest].wait(60)
        self.event({"choices": [{"index": 0, "delta": {"content": "two"}, "finish_reason": "stop"}]}, body)
        if (body.get("stream_options") or {}).get("include_usage"):
            self.event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}, body)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, more, body):
        event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"], **more}
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()

    def answer(self, value, status=200, headers=None):
        self.send(json.dumps(value).encode(), status, "application/json", headers or {})

    def send(self, text, status, kind, headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)
