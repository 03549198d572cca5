"""A small OpenID Connect provider on loopback: discovery, keys that change, codes with PKCE, and answers that are wrong on request.

As a program it prints its address and serves until it is ended.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

CLIENT, SECRET = "himalia", "s3cret of the client: a+b"


def _key(algorithm):
    """A new private key for this algorithm, and its public half as it is published."""
    if algorithm.startswith("ES"):
        private = ec.generate_private_key(ec.SECP384R1() if algorithm == "ES384" else ec.SECP256R1())
        kind = jwt.algorithms.ECAlgorithm
    elif algorithm == "EdDSA":
        private, kind = ed25519.Ed25519PrivateKey.generate(), jwt.algorithms.OKPAlgorithm
    else:
        private, kind = rsa.generate_private_key(public_exponent=65537, key_size=2048), jwt.algorithms.RSAAlgorithm
    return private, json.loads(kind.to_jwk(private.public_key()))


class Provider:
    """`claims` are added to each id token; `None` removes one. `paths` are what was asked for."""

    def __init__(self, algorithm="RS256"):
        self.claims = {"sub": "subject-1", "preferred_username": "ada", "groups": ["analysts"]}
        self.codes, self.paths, self.metadata, self.header = {}, [], {}, {}
        self.refusal = self.answer = None
        self.clients = {}
        self.rotate(algorithm)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def rotate(self, algorithm=None):
        """A new key in the place of the one before."""
        self.algorithm = algorithm or self.algorithm
        self.private, published = _key(self.algorithm)
        self.key_id = secrets.token_hex(4)
        self.keys = [{**published, "kid": self.key_id, "use": "sig", "alg": self.algorithm}]

    def token(self, nonce):
        """An id token."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.claims}
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"kid": self.key_id, **self.header}
        return jwt.encode(claims, self.private, self.algorithm, headers=header)

    def stop(self):
        """Refuse connections from now on."""
        self.server.shutdown()
        self.server.server_close()

    def discovery(self):
        """The metadata."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=1",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.metadata,
        }

    def authorize(self, query):
        """Where the browser goes next: the person is known, and consents at once."""
        assert query["client_id"] == CLIENT and query["response_type"] == "code" and query["tenant"] == "1", query
        assert query["code_challenge_method"] == "S256" and query["scope"].split()[0] == "openid", query
        back = {"state": query["state"], "iss": self.url}
        if self.refusal:
            back["error"] = self.refusal
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.codes[back["code"]] = query
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def exchange(self, form, authorization):
        """Status and body for a code."""
        scheme, _, credentials = authorization.partition(" ")
        name, _, secret = base64.b64decode(credentials).decode().partition(":")
        if (scheme, unquote_plus(name), unquote_plus(secret)) != ("Basic", CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        begun = self.codes.pop(form.get("code"), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if not begun or begun["code_challenge"] != challenge.decode() or begun["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "no such code"}
        if self.answer:
            return self.answer
        return 200, {"token_type": "Bearer", "access_token": "unused", "id_token": self.token(begun["nonce"])}

    def _handler(provider):
        class Handler(BaseHTTPRequestHandler):
            # One request per connection: after `stop`, none is open on which it would still answer.
            protocol_version = "HTTP/1.0"

            def do_GET(self):
                url = urlsplit(self.path)
                provider.paths.append(url.path)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                if url.path == "/.well-known/openid-configuration":
                    self.reply(200, provider.discovery())
                elif url.path == "/keys":
                    self.reply(200, {"keys": [{"kty": "unknown", "kid": "x"}, *provider.keys]})
                elif url.path == "/authorize":
                    self.reply(302, {}, provider.authorize(query))
                else:
                    self.reply(404, {})

            def do_POST(self):
                provider.paths.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self.reply(*provider.exchange(form, self.headers.get("Authorization", "")))

            def reply(self, status, body, location=None):
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                if location:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        return Handler


if __name__ == "__main__":
    running = Provider()
    print(running.url, flush=True)
    running.thread.join()
