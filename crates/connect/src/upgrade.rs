//! The client's half of a WebSocket upgrade (RFC 6455, section 4), for the HTTP client that sends the request.

use himalia_wire::v1::SUBPROTOCOL;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

#[derive(Debug)]
pub struct Upgrade {
    key: String,
}

impl Upgrade {
    /// With a fresh key.
    pub fn new() -> Self {
        Self { key: generate_key() }
    }

    /// Headers of the GET.
    pub fn headers(&self) -> [(&'static str, &str); 5] {
        [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", SUBPROTOCOL),
            ("sec-websocket-key", &self.key),
        ]
    }

    /// True if a response 101 with these headers, `Sec-WebSocket-Accept` and `Sec-WebSocket-Protocol`, belongs to this request.
    pub fn is_accepted(&self, accept: Option<&[u8]>, protocol: Option<&[u8]>) -> bool {
        accept == Some(derive_accept_key(self.key.as_bytes()).as_bytes())
            && protocol == Some(SUBPROTOCOL.as_bytes())
    }
}

impl Default for Upgrade {
    fn default() -> Self {
        Self::new()
    }
}
