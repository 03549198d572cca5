//! Messages that clients send and receive.

use std::time::Duration;

use crate::describe::{Catalog, Counter, Counters, Histograms};

/// Requests, bytes and ended connections.
#[derive(Debug)]
pub struct Clients {
    requests: Counters<3>,
    seconds: Histograms<1>,
    /// Bytes of the bodies of requests.
    pub http_in: Counter,
    /// Bytes of the bodies of responses, event streams included.
    pub http_out: Counter,
    /// Bytes of WebSocket messages from clients.
    pub websocket_in: Counter,
    /// Bytes of WebSocket frames to clients.
    pub websocket_out: Counter,
    evicted: Counters<1>,
}

/// Reasons for which the gateway ends a connection.
const EVICTIONS: [[&str; 1]; 5] = [
    ["unauthenticated"],
    ["idle"],
    ["revoked"],
    ["stalled"],
    ["silent"],
];

impl Clients {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        let requests = catalog.counters(
            "himalia_http_requests_total",
            "Requests, by method, route of the API, and status of the response",
            ["method", "route", "status"],
            &[],
        );
        let seconds = catalog.long_histograms(
            "himalia_http_request_seconds",
            "From a request to the head of its response, by interface: jupyter, v1, mcp, other",
            ["interface"],
        );
        let bytes = catalog.counters(
            "himalia_client_bytes_total",
            "Bytes of bodies and messages, by direction (in: from clients) and transport: http, websocket",
            ["direction", "transport"],
            &[],
        );
        let evicted = catalog.counters(
            "himalia_connections_ended_total",
            "Connections that the gateway ended, by reason: unauthenticated (the oldest one without a token), idle (another \
             one of its owner needed the place), revoked, stalled (took nothing), silent (no sign of life)",
            ["reason"],
            &EVICTIONS,
        );
        Self {
            requests,
            seconds,
            http_in: bytes.of(["in", "http"]),
            http_out: bytes.of(["out", "http"]),
            websocket_in: bytes.of(["in", "websocket"]),
            websocket_out: bytes.of(["out", "websocket"]),
            evicted,
        }
    }

    /// A request was answered. `method` and `route` are those of the table of routes, or `other`.
    pub fn answered(&self, method: &'static str, route: &'static str, status: &'static str, time: Duration) {
        self.requests.inc([method, route, status]);
        self.seconds.observe([interface(route)], time);
    }

    pub fn ended(&self, reason: &'static str) {
        self.evicted.inc([reason]);
    }
}

fn interface(route: &str) -> &'static str {
    match route.split('/').nth(1) {
        Some("v1") => "v1",
        Some("api" | "kernelspecs") => "jupyter",
        Some("mcp") => "mcp",
        _ => "other",
    }
}
