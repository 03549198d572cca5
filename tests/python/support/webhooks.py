"""The other side of webhooks: a receiver of what is posted, and signatures."""

import base64
import hashlib
import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def signature(secret, message, stamp, body):
    """What Standard Webhooks signs with, written down once more."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


class Receiver:
    """A server that keeps what is posted to it, and answers with the next status of a list."""

    def __init__(self):
        self.seen, self.statuses = [], []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.seen.append((dict(self.headers), body))
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                self.send_response(status)
                if status == 302:
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/results"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        """No more."""
        self.server.shutdown()
        self.server.server_close()
