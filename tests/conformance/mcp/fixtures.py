"""A gateway in front of which the names of the conformance suite stand for calls of the gateway's own tools and resources.

The suite calls tools such as `test_simple_text`, reads `test://static-text` and gets the prompt `test_simple_prompt`. A proxy on this machine
turns each of them into a call of `execute`, into the address of a file of a session, or into the name of a skill, and turns names in the answer
back. All else passes as it is: headers, origins, states and streams. The proxy also adds the token, for which the suite has no option. What
Himalia does not offer, such as sampling, is not turned into anything, and fails.
"""

import base64
import contextlib
import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
ASK = "print('Hello, ' + input('What is your name?') + '!')"

# Code that does what the suite expects of a tool.
CODE = {
    "test_simple_text": "print('This is a simple text response for testing.')",
    "test_image_content": f"import base64\nfrom IPython.display import Image\nImage(base64.b64decode('{PNG}'), format='png')",
    "test_audio_content": "from IPython.display import Audio\nAudio([0.0, 0.5] * 400, rate=8000)",
    "test_error_handling": "raise RuntimeError('This tool intentionally returns an error for testing')",
    "test_tool_with_progress": "import time\nfor n in range(5):\n    print(n, flush=True)\n    time.sleep(1.1)",
    "test_input_required_result_elicitation": ASK,
    "test_input_required_result_request_state": f"{ASK}\nprint('state-ok')",
    "test_input_required_result_tampered_state": ASK,
    "test_input_required_result_multi_round": f"{ASK}\nprint('So it is ' + input('What is your favorite color?'))",
    "test_streaming_elicitation": ASK,
    "test_elicitation": ASK,
    "test_logging_tool": "import logging\nlogging.warning('a line of a log')",
}
# The skill that stands for a prompt of the suite.
PROMPT, SKILL = "test_simple_prompt", "simple-prompt"
INSTRUCTIONS = f"---\nname: {SKILL}\ndescription: A prompt.\n---\nThis is a simple prompt for testing."
# The key of a question, where the suite compares it.
KEYS = {"test_input_required_result_elicitation": "user_name"}
# The gateway's own key, and the field of its form.
KEY, FIELD = "input", "value"
TEXT, BINARY, TEMPLATE = "test://static-text", "test://static-binary", "test://template/"


class Fixtures:
    """The proxy in front of a gateway; `with` starts and stops it."""

    def __init__(self, gateway):
        self.gateway = gateway
        # A question without an answer holds up the code of its session.
        self.session, self.asking = self.start("conformance"), self.start("asking")
        self.files = f"himalia://sessions/{self.session}/files/"
        self.write("static.txt", b"This is the content of the static text resource.")
        self.write("static.png", base64.b64decode(PNG))
        self.write("template/123/data", b'{"id": "123", "templateTest": true, "data": "Data for ID: 123"}')
        manifest = {"name": SKILL, "version": "1.0.0", "description": "A prompt.", "kind": "instructions"}
        published = gateway.http.post("v1/skills", json={"manifest": manifest, "files": {"SKILL.md": {"text": INSTRUCTIONS}}})
        assert published.is_success, published.text
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self):
                # The suite cuts connections of streams.
                with contextlib.suppress(ConnectionError):
                    super().handle()

            def handle_one(self):
                outer.serve(self)

            do_POST = do_GET = do_DELETE = do_OPTIONS = handle_one

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()

    def start(self, name):
        """A session whose kernel has run code."""
        made = self.gateway.http.post("v1/sessions", json={"template": "python3", "name": name})
        assert made.status_code == 201, made.text
        session = made.json()["id"]
        ran = self.gateway.http.post(f"v1/sessions/{session}/executions", json={"code": CODE["test_image_content"], "wait_s": 60})
        assert ran.json()["status"] == "ok", ran.text
        return session

    def write(self, path, content):
        """A file of the session."""
        put = self.gateway.http.put(f"v1/sessions/{self.session}/files/{path}", content=content)
        assert put.is_success, put.text

    def own(self, uri):
        """The gateway's address of a resource of the suite."""
        if uri == TEXT:
            return f"{self.files}static.txt"
        if uri == BINARY:
            return f"{self.files}static.png"
        return uri.replace(TEMPLATE, f"{self.files}template/") if uri.startswith(TEMPLATE) else uri

    def request(self, message, headers):
        """A message of the suite as one for the gateway; the name of its tool."""
        if isinstance(message, dict) and "method" not in message and isinstance(message.get("result"), dict):
            # The answer to a question on the stream of a call.
            self.fill(message["result"])
            return "answer"
        params = message.get("params") if isinstance(message, dict) else None
        if not isinstance(params, dict):
            return None
        name, uri = params.get("name"), params.get("uri")
        if message.get("method") == "prompts/get" and name == PROMPT:
            params["name"] = SKILL
            self.rename(headers, PROMPT, SKILL)
            return name
        if message.get("method") == "completion/complete":
            # No prompt has arguments; the address of a session has a part.
            params["ref"] = {"type": "ref/resource", "uri": "himalia://sessions/{session}"}
            params["argument"] = {"name": "session", "value": self.session[:8]}
            return "completion"
        if message.get("method") == "resources/read" and isinstance(uri, str):
            params["uri"] = self.own(uri)
            self.rename(headers, uri, params["uri"])
            return uri
        if message.get("method") != "tools/call" or name not in CODE:
            return None
        session = self.asking if "input(" in CODE[name] else self.session
        if session == self.asking and "requestState" not in params:
            self.gateway.http.post(f"v1/sessions/{session}/interrupt")
        params["name"] = "execute"
        params["arguments"] = {"session": session, "code": CODE[name], "allow_stdin": True, "wait_s": 30, "audio_bytes": 65536}
        self.rename(headers, name, "execute")
        answers = params.get("inputResponses")
        if isinstance(answers, dict) and (key := KEYS.get(name, KEY)) in answers:
            answers[KEY] = answers.pop(key)
            self.fill(answers[KEY])
        return name

    @staticmethod
    def fill(answer):
        """What a person answered, in the gateway's only field."""
        content = answer.get("content") if isinstance(answer, dict) else None
        if isinstance(content, dict) and content:
            answer["content"] = {FIELD: str(next(iter(content.values())))}

    @staticmethod
    def rename(headers, old, new):
        """The header that names what the body names."""
        for index, (name, value) in enumerate(headers):
            if name.lower() == "mcp-name" and value == old:
                headers[index] = (name, new)

    def answer(self, text, asked):
        """A message of the gateway as one for the suite."""
        try:
            message = json.loads(text)
        except ValueError:
            return text
        result = message.get("result") if isinstance(message, dict) else None
        if isinstance(result, dict) and asked in KEYS and KEY in result.get("inputRequests", {}):
            result["inputRequests"][KEYS[asked]] = result["inputRequests"].pop(KEY)
        elif isinstance(result, dict) and asked and asked.startswith("test://"):
            for one in result.get("contents", []):
                one["uri"] = asked
        else:
            return text
        return json.dumps(message).encode()

    def serve(self, client):
        """One request of the suite."""
        body = client.rfile.read(int(client.headers.get("content-length") or 0))
        headers = [(n, v) for n, v in client.headers.items() if n.lower() not in ("content-length", "connection")]
        headers.append(("Authorization", f"Bearer {self.gateway.token}"))
        asked = None
        try:
            message = json.loads(body)
            asked = self.request(message, headers)
            body = json.dumps(message).encode() if asked else body
        except ValueError:
            pass
        address = self.gateway.http.base_url
        upstream = http.client.HTTPConnection(address.host, address.port, timeout=120)
        upstream.putrequest(client.command, f"{address.path}mcp", skip_host=True, skip_accept_encoding=True)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            upstream.putheader(name, value)
        upstream.endheaders(body)
        reply = upstream.getresponse()
        client.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                client.send_header(name, value)
        try:
            if reply.headers.get_content_type() == "text/event-stream":
                self.stream(client, reply, asked)
            else:
                content = self.answer(reply.read(), asked)
                client.send_header("Content-Length", str(len(content)))
                client.end_headers()
                client.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            client.close_connection = True
        finally:
            upstream.close()

    def stream(self, client, reply, asked):
        """Events, as they come."""
        client.send_header("Transfer-Encoding", "chunked")
        client.end_headers()
        while line := reply.readline():
            if line.startswith(b"data:"):
                line = b"data: " + self.answer(line[5:].strip(), asked) + b"\n"
            client.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            client.wfile.flush()
        client.wfile.write(b"0\r\n\r\n")
