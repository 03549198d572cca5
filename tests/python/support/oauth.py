"""A real authorization server with an API that takes its tokens, and the person who consents."""

import re
import subprocess
from pathlib import Path
from urllib.parse import urljoin

import httpx

SERVER = Path(__file__).resolve().parents[2] / "js" / "lib" / "oauth-server.js"
CLIENT, SECRET = "machine", "s3cret+of/machine"


class AuthorizationServer:
    """`oidc-provider` on a port of this machine. Its API is at `api`."""

    def __init__(self):
        self.process = subprocess.Popen(["node", str(SERVER)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), "it has started (tests/js/node_modules)"
        self.host = self.url.removeprefix("http://")
        self.api = f"{self.url}/api"
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=60)

    def counts(self):
        """How often tokens were given, by grant, and refused; calls of the API."""
        return self.http.get("/counts").json()

    def tokens(self):
        """All that were given."""
        return self.http.get("/tokens").json()

    def control(self, **wanted):
        """Changes what it does from now on."""
        assert self.http.post("/control", json=wanted).status_code == 200

    def consent(self, url, agrees=True):
        """What a person does on its pages; the address that the browser is sent back to."""
        with httpx.Client(trust_env=False, timeout=60) as browser:
            reply = browser.get(url)
            for _ in range(20):
                if reply.is_redirect:
                    url = urljoin(str(reply.url), reply.headers["location"])
                    if not url.startswith(self.url):
                        return url
                    reply = browser.get(url)
                    continue
                form = re.search(r'<form[^>]* action="([^"]+)"', reply.text)
                prompt = re.search(r'name="prompt" value="([^"]+)"', reply.text)
                assert form and prompt, reply.text
                if not agrees:
                    reply = browser.get(str(reply.url).rstrip("/") + "/abort")
                    continue
                fields = {"prompt": prompt[1], **({"login": "ada", "password": "any"} if prompt[1] == "login" else {})}
                reply = browser.post(urljoin(str(reply.url), form[1]), data=fields)
        raise AssertionError("the pages do not end")

    def close(self):
        """Ends it."""
        self.http.close()
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
