"""A description in YAML, whose operations take forms; and turns at a server that others use too."""

import base64
import http.server
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from email.parser import BytesParser
from urllib.parse import parse_qsl

import pytest
from levels import AtLevel, place
from waiting import eventually

pytestmark = pytest.mark.timeout(300)

DESCRIPTION = """
openapi: 3.1.0
info: {{title: Files, version: '1'}}
servers:
  - url: {url}
paths:
  /upload:
    post:
      operationId: upload
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema:
              type: object
              required: [table]
              properties:
                table: {{type: string, format: binary, description: A table.}}
                title: {{type: string}}
      responses:
        200: {{description: It.}}
  /charge:
    post:
      operationId: charge
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              properties:
                amount: {{type: integer}}
                card: {{type: object}}
            encoding:
              card: {{style: deepObject}}
  /wait:
    get: {{operationId: wait}}
  /go:
    get: {{operationId: go}}
"""

CONFIG = """
[tool_servers.files]
openapi = "{file}"

[templates.callers]
kernelspec = "python3"
{place}memory = "512MiB"
tools = ["files"]
tools_write = ["files"]
"""


class Files:
    """The server: it says what a form has, and holds some requests."""

    def __init__(self):
        self.held, self.release = 0, threading.Event()
        files = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/wait":
                    files.held += 1
                    files.release.wait(120)
                self.reply("done")

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                kind = self.headers["content-type"]
                if kind.startswith("multipart/form-data"):
                    parts = BytesParser().parsebytes(f"content-type: {kind}\r\n\r\n".encode() + body).get_payload()
                    told = {
                        part.get_param("name", header="content-disposition"): [
                            part.get_filename(),
                            part.get_payload(decode=True).decode(),
                        ]
                        for part in parts
                    }
                else:
                    told = parse_qsl(body.decode())
                self.reply(told)

            def reply(self, told):
                text = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        """Ends it."""
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


class World:
    """The server, and a gateway with it."""

    def __init__(self, directory):
        self.files = Files()
        file = directory / "files.yaml"
        file.write_text(DESCRIPTION.format(url=self.files.url))
        text = CONFIG.format(file=file, place=place("none"))
        self.gateway = AtLevel(directory / "gateway", "none", "--isolation", "none", extra=text)
        self.sessions = [self.gateway.session("callers")["id"] for _ in range(2)]
        servers = lambda: self.gateway.http.get(f"v1/sessions/{self.sessions[0]}/tools/servers").json()["servers"]  # noqa: E731
        eventually(lambda: servers()[0]["ready"], lambda: self.gateway.log.read_text()[-3000:], 60)

    def call(self, tool, session=0, **arguments):
        """The reply to a call."""
        body = {"tool": f"files.{tool}", "arguments": arguments}
        path = f"v1/sessions/{self.sessions[session]}/tools/calls"
        return self.gateway.http.post(path, json=body, timeout=120)

    def close(self):
        """Ends all."""
        self.files.release.set()
        self.gateway.stop()
        self.files.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = World(tmp_path_factory.mktemp("forms"))
    yield made
    made.close()


def test_a_file_in_a_form_is_given_in_base64(world):
    info = world.gateway.http.get(f"v1/sessions/{world.sessions[0]}/tools/files.upload").json()
    assert "base64" in info["input_schema"]["properties"]["table"]["description"]
    reply = world.call("upload", table=base64.b64encode(b"a,b\n1,2\n").decode(), title="T")
    assert reply.json()["content"] == {"table": ["table", "a,b\n1,2\n"], "title": [None, "T"]}, reply.text
    refused = world.call("upload", table="a,b", title="T")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_arguments"), refused.text
    assert world.call("charge", amount=5, card={"number": "4 2"}).json()["content"] == [["amount", "5"], ["card[number]", "4 2"]]


def test_a_session_that_takes_all_its_turns_holds_up_no_other_one(world):
    with ThreadPoolExecutor(60) as pool:
        waiting = [pool.submit(world.call, "wait") for _ in range(60)]
        try:
            eventually(lambda: world.files.held == 32, lambda: str(world.files.held), 60)
            for _ in range(5):
                assert world.call("go", session=1).json()["content"] == "done"
            assert world.files.held == 32, "the others wait for their turn"
        finally:
            world.files.release.set()
        assert all(one.result().status_code == 200 for one in waiting)
