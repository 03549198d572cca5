"""The client that the conformance suite of MCP drives: a gateway whose only server of tools is the suite's server.

The suite starts it once for each scenario, with the URL of its server as the last argument. It does what a person and a session do: it
starts a gateway, grants the credential where the server wants one, calls each tool that the session sees, and answers what a tool asks.
"""

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "support"))
from servers import Himalia  # noqa: E402

# Address of client metadata that the suite's authorization servers know. A deployment sets one of its own.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
REDIRECT = "http://127.0.0.1:7777/callback"
PATIENCE = 180
# Seconds after which a person who sees that the server does not work grants again.
GRANT_AGAIN = 4
# Grants of one scenario. A server that wants more and more scopes gets no more.
GRANTS = 3

CONFIG = """
private_addresses = ["127.0.0.1", "::1"]

[tool_servers.suite]
url = "{url}"
{credential}
[templates.tools]
kernelspec = "python3"
tools = ["suite"]
tools_write = ["suite.*"]
"""

CREDENTIAL = """
[credentials.suite]
kind = "oauth2"
hosts = ["{origin}"]
grant = "authorization_code"
resource = "{url}"
client_id = "{client}"
"""


def credential(url, directory, context):
    """The configuration of the credential: of a client that has registered before, or of any other."""
    parts = urlsplit(url)
    text = CREDENTIAL.format(origin=f"{parts.scheme}://{parts.netloc}", url=url, client=context.get("client_id", DOCUMENT))
    if "client_secret" not in context:
        return text
    secret = directory / "client-secret"
    secret.write_text(context["client_secret"])
    secret.chmod(0o600)
    # With a secret the operator names the authorization server, which has to be looked up here.
    described = httpx.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}", trust_env=False)
    issuer = described.json()["authorization_servers"][0]
    return text + f'issuer = "{issuer}"\nclient_secret_file = "{secret}"\n'


class Client:
    """A gateway, and a session that sees the tools."""

    def __init__(self, gateway):
        self.http = gateway.http
        self.granted = 0
        started = self.http.post("v1/sessions", json={"template": "tools"})
        assert started.status_code == 201, started.text
        self.session = f"v1/sessions/{started.json()['id']}"

    def server(self):
        """The state of the suite's server."""
        (server,) = self.http.get(f"{self.session}/tools/servers").json()["servers"]
        return server

    def problem(self):
        """What a person has to grant, if anything."""
        for one in self.http.get("v1/credentials").json()["credentials"]:
            tokens = one.get("tokens") or {}
            if tokens.get("problem"):
                return tokens["problem"]
        return None

    def grant(self):
        """What a person does in a browser; the pages of the suite consent by themselves."""
        if self.granted == GRANTS:
            return False
        self.granted += 1
        begun = self.http.post("v1/credentials/suite/grant", json={"redirect_uri": REDIRECT})
        if begun.status_code != 200:
            print("no grant:", begun.text, file=sys.stderr)
            return False
        page = httpx.get(begun.json()["url"], trust_env=False)
        answer = parse_qs(urlsplit(urljoin(begun.json()["url"], page.headers["location"])).query)
        names = ("state", "code", "iss", "error", "error_description")
        done = self.http.post("v1/grants", json={name: answer[name][0] for name in names if name in answer})
        print("grant:", done.status_code, done.text[:300], file=sys.stderr)
        return done.status_code == 200

    def wait(self):
        """Waits until the server can be called; false: it cannot."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) < PATIENCE:
            server = self.server()
            if server["ready"]:
                return True
            # A server may refuse a token that looks good, as after a move to another authorization server.
            is_refused = self.granted and waited > GRANT_AGAIN * self.granted
            if (self.problem() or is_refused) and not self.grant():
                return False
            time.sleep(0.1)
        print("not ready:", server, file=sys.stderr)
        return False

    def call(self, tool, arguments):
        """Calls a tool once; true: it replied."""
        body = {"tool": tool, "arguments": arguments}
        with ThreadPoolExecutor(1) as pool:
            called = pool.submit(self.http.post, f"{self.session}/tools/calls", json=body)
            while not called.done():
                self.answer_prompts()
                wait([called], timeout=0.1)
        reply = called.result()
        print(tool, reply.status_code, reply.text[:300], file=sys.stderr)
        return reply.status_code == 200

    def answer_prompts(self):
        """What a person does who is asked something by a tool."""
        for prompt in self.http.get("v1/prompts").json()["prompts"]:
            value = next(iter(prompt["options"]), "conformance")
            self.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": value})

    def calls(self, context):
        """Calls each tool that the session sees, with the arguments that the suite wants or the example of its schema."""
        found = self.http.get(f"{self.session}/tools", params={"limit": 100}).json()["tools"]
        wanted = {f"suite.{one['name']}": one["arguments"] for one in context.get("toolCalls", [])}
        done = True
        for tool in sorted(one["id"] for one in found):
            arguments = wanted.get(tool)
            if arguments is None:
                arguments = self.http.get(f"{self.session}/tools/{tool}").json()["example"]
            # A parameter without a value is not sent.
            given = {name: value for name, value in arguments.items() if value is not None}
            done = self.call(tool, given) and done
        return done


def main(url):
    """A scenario. The suite sees from its own side whether it was done."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as directory:
        directory = Path(directory)
        needs_grant = os.environ["MCP_CONFORMANCE_SCENARIO"].startswith("auth/")
        config = directory / "himalia.toml"
        text = CONFIG.format(url=url, credential='credential = "suite"\n' if needs_grant else "")
        config.write_text(text + (credential(url, directory, context) if needs_grant else ""))
        gateway = Himalia(directory / "gateway", "--config", str(config))
        try:
            client = Client(gateway)
            while client.wait():
                if client.calls(context):
                    break
                # A tool may want more scopes than the list of tools.
                if not needs_grant or not client.grant():
                    break
                time.sleep(2.5)
        finally:
            gateway.stop()


if __name__ == "__main__":
    main(sys.argv[-1])
