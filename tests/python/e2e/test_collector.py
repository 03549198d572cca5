"""A collector of OpenTelemetry gets traces, and the audit log."""

import http.server
import threading

import pytest
from servers import Himalia
from waiting import eventually

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the bodies of requests by path; refuses them while `busy` is set."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.busy, self.refused, self.bodies = False, 0, {"/v1/traces": b"", "/v1/logs": b""}
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def has(self, path, *texts):
        """Whether all of these texts arrived: strings of protobuf are sent as they are."""
        return all(text in self.bodies[path] for text in texts)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.busy:
            self.server.refused += 1
            self.send_response(503)
        else:
            self.server.bodies[self.path] += body
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def collector():
    with Collector() as collector:
        yield collector
        collector.shutdown()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, collector, kernel_python):
    options = "--audit-log", "otlp", "--otlp-endpoint", collector.url
    gateway = Himalia(tmp_path_factory.mktemp("collector"), *options)
    yield gateway
    gateway.stop()


def test_one_trace_goes_from_the_call_to_the_kernel(gateway, collector):
    session = gateway.start_session()
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": "40 + 2"}, headers=headers)
    assert reply.headers["traceparent"].split("-")[1] == TRACE
    names = "submit", "execution", "queue", "shim", "kernel"
    spans = b"POST /v1/sessions/{session_id}/executions", *(f"himalia.{name}".encode() for name in names), bytes.fromhex(TRACE)
    eventually(lambda: collector.has("/v1/traces", *spans), "the spans of the execution arrive", 60)


def test_the_audit_log_arrives_and_waits_for_a_busy_collector(gateway, collector):
    collector.busy = True
    session = gateway.start_session()
    eventually(lambda: collector.refused > 0, "an entry is refused", 60)
    eventually(lambda: "audit" in gateway.http.get("readyz").text, "/readyz says that the audit log cannot be written", 60)
    assert not collector.has("/v1/logs", session.encode())
    collector.busy = False
    entry = b"himalia.audit", b"start_session", b"operator", b"credential", session.encode()
    eventually(lambda: collector.has("/v1/logs", *entry), "the entry arrives", 60)
    eventually(lambda: gateway.http.get("readyz").status_code == 200, "the gateway is ready again", 60)
    assert "audit" not in gateway.http.get("readyz").text
