//! Connections of sandboxes to the network through this gateway.

use crate::describe::{Catalog, Counter, Counters};

/// Connections and bytes.
#[derive(Clone, Debug)]
pub struct Network {
    connections: Counters<1>,
    sent: Counter,
    received: Counter,
}

impl Network {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self {
            connections: catalog.counters(
                "himalia_network_connections_total",
                "Connections of sandboxes to the network that have ended or were refused, by outcome",
                ["outcome"],
                &["ended", "denied", "limit", "unreachable", "request", "credential"]
                    .map(|outcome| [outcome]),
            ),
            sent: catalog.counter(
                "himalia_network_sent_bytes_total",
                "Bytes of sandboxes to the network",
            ),
            received: catalog.counter(
                "himalia_network_received_bytes_total",
                "Bytes from the network to sandboxes",
            ),
        }
    }

    /// A connection has ended, or was refused: `ended`, `denied`, `limit`, `unreachable`, `request`, `credential`.
    pub fn ended(&self, outcome: &'static str) {
        self.connections.inc([outcome]);
    }

    /// So many bytes were carried.
    pub fn carried(&self, sent: u64, received: u64) {
        self.sent.inc_by(sent);
        self.received.inc_by(received);
    }
}
