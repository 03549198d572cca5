"""A host that knows keys, and checks or repeats those of its clients."""

import base64
import hashlib
import hmac
import http.server
import io
import json
import re
import ssl
import subprocess
import threading
from urllib.parse import parse_qsl, quote


class Keeper:
    """A server with TLS for all hosts.

    Most repeat the head and the body of each request, in parts. `aws.test` is a store of objects, which takes and gives what is signed
    with the key that it knows. `user.test` has the files of `repository`, for who has the password.
    """

    def __init__(self, certificate, repository=None):
        self.requests = []
        self.objects = {}
        self.key = self.password = None
        self.repository = repository
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.body()
                keeper.requests.append((self.command, self.path, dict(self.headers.items()), body))
                host = self.headers.get("host", "").partition(":")[0]
                if host == "aws.test" and not self.path.startswith("/queue"):
                    self.answer(*keeper.stored(self.command, self.path, keeper.last(), body))
                elif host == "user.test" and self.path.startswith("/repository.git/"):
                    self.answer(*keeper.file(self.path, self.headers.get("authorization")))
                else:
                    text = json.dumps({"path": self.path, "headers": dict(self.headers.items())}).encode() + body
                    self.answer(200, text, {"x-echo": self.headers.get("authorization") or "none"})

            do_POST = do_PUT = do_GET

            def body(self):
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length") or 0))
                return unchunked(self.rfile)

            def answer(self, status, body, headers=None):
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                step = 5 if len(body) < 4096 else len(body)
                for at in range(0, len(body), step):
                    self.wfile.write(body[at : at + step])
                    self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stored(self, method, path, headers, body):
        """What the store of objects answers."""
        said = headers.get("x-amz-content-sha256")
        if said not in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", hashlib.sha256(body).hexdigest()):
            return 400, b"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>"
        if not headers.get("authorization", "").endswith("Signature=" + signature(self.key, method, path, headers, said)):
            return 403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"
        name = path.partition("?")[0]
        if method == "PUT":
            # Parts with a checksum behind them, as SDKs send them over TLS.
            if said.startswith("STREAMING-"):
                body = unchunked(io.BytesIO(body))
            self.objects[name] = body
            return 200, b"", {"etag": '"1"'}
        found = self.objects.get(name)
        return (200, found, {"x-echo": self.key}) if found is not None else (404, b"<Error><Code>NoSuchKey</Code></Error>")

    def file(self, path, authorization):
        """A file of the repository, for who has the password."""
        if authorization != "Basic " + base64.b64encode(f"ada:{self.password}".encode()).decode():
            return 401, b"", {"www-authenticate": 'Basic realm="repository"'}
        file = self.repository / path.partition("?")[0].removeprefix("/repository.git/")
        return (200, file.read_bytes()) if file.is_file() else (404, b"")

    def last(self):
        """Headers of the latest request, in lower case."""
        return {name.lower(): value for name, value in self.requests[-1][2].items()}

    def close(self):
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()


def unchunked(file):
    """What is in the chunks of a file; lines behind the last one are read too."""
    found = b""
    while size := int(file.readline().partition(b";")[0], 16):
        found += file.read(size)
        file.readline()
    while file.readline().strip():
        pass
    return found


def signature(key, method, path, headers, payload_hash):
    """AWS Signature Version 4 of a request, from its own statement of what is signed."""
    found = re.search(r"Credential=AKIDTEST/(\S+), ?SignedHeaders=(\S+),", headers.get("authorization", ""))
    if not found:
        return "none"
    scope, names = found.groups()
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in names.split(";"))
    path, _, query = path.partition("?")
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([method, path, "&".join("=".join(pair) for pair in pairs), lines, names, payload_hash])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    made = ("AWS4" + key).encode()
    for part in (*scope.split("/"), text):
        made = hmac.new(made, part.encode(), hashlib.sha256).digest()
    return made.hex()


def authority(directory, *names):
    """A certificate authority, and a certificate of it for these names with its key."""
    ca, ca_key, cert, key, request = (str(directory / name) for name in ("ca.pem", "ca.key", "host.pem", "host.key", "host.csr"))
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run = lambda *command: subprocess.run(["openssl", *command], check=True, capture_output=True)
    run("req", "-x509", *new, "-days", "2", "-subj", "/CN=Test authority", "-keyout", ca_key, "-out", ca)
    run("req", *new, "-subj", f"/CN={names[0]}", "-keyout", key, "-out", request)
    extensions = directory / "extensions"
    extensions.write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in names))
    run("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "2", "-extfile", str(extensions), "-out", cert)
    return ca, (cert, key)
