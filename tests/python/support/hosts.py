"""Hosts that a session may or may not reach, on loopback, and names for them that only one gateway knows."""

import http.server
import shutil
import ssl
import subprocess
import threading
from pathlib import Path


class Names:
    """A hosts file for one gateway: its names can get other addresses while it runs."""

    def __init__(self, directory):
        self.file = Path(directory) / "hosts"
        self.names = {}
        self.write()

    def write(self):
        """In place: the gateway has this very file."""
        lines = [f"{address} {name}\n" for name, addresses in self.names.items() for address in addresses]
        with self.file.open("w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(lines))

    def __setitem__(self, name, addresses):
        self.names[name] = addresses
        self.write()

    def around(self, command):
        """The command, in a mount namespace in which this is the machine's list of hosts."""
        mounted = f'mount --bind {self.file} /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "--", "sh", "-c", mounted, "sh", *command]


class Host:
    """An HTTP server that remembers what it was asked. `pages` are bodies, or addresses to redirect to, by path."""

    def __init__(self, address="127.0.0.1", certificate=None, pages=None):
        self.pages = pages or {}
        self.requests = []
        host = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply()

            def do_POST(self):
                self.reply()

            def reply(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                host.requests.append((self.command, self.path, self.headers.get_all("host")))
                page = host.pages.get(self.path)
                redirect = isinstance(page, str)
                self.send_response(302 if redirect else 200 if page is not None else 404)
                if redirect:
                    self.send_header("location", page)
                body = b"" if redirect or page is None else page
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        """Ends it."""
        self.server.shutdown()
        self.server.server_close()


def certificate(directory, *names):
    """A certificate that signs itself, for these names, and its key."""
    assert shutil.which("openssl"), "openssl is a prerequisite of the tests"
    cert, key = Path(directory) / "cert.pem", Path(directory) / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={names[0]}", "-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key
