//! Connections of a sandbox to the network, as its log has them.

use serde::{Deserialize, Serialize};

/// The body of a record of a connection to the network, which has ended or was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// A name or an address.
    pub host: String,
    pub port: u16,
    pub outcome: NetworkOutcome,
    /// The credential whose secret the gateway has added, or several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Reason, unless it has ended by itself: one line that begins with a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes to the host.
    pub sent_bytes: u64,
    /// Bytes from the host.
    pub received_bytes: u64,
    /// From the request to its end.
    pub duration_ms: u64,
    /// Number of other connections that have ended since the record before and have no record of their own, because there are too many. Their bytes
    /// are in the sums.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkOutcome {
    /// It was made, and has ended.
    Ended,
    /// It was not made, or was cut: it is not allowed.
    Refused,
    /// It was allowed, and the host was not reached.
    Unreachable,
    /// An outcome of a later version.
    #[serde(other)]
    Unknown,
}

/// Sums of all ended connections of a kernel's sandbox to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTotals {
    /// Connections, those included that were refused.
    pub connections: u64,
    /// Bytes to hosts.
    pub sent_bytes: u64,
    /// Bytes from hosts.
    pub received_bytes: u64,
}

impl NetworkTotals {
    /// True if there was none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, record: &NetworkRecord) {
        self.connections = self.connections.saturating_add(record.omitted).saturating_add(1);
        self.sent_bytes = self.sent_bytes.saturating_add(record.sent_bytes);
        self.received_bytes = self.received_bytes.saturating_add(record.received_bytes);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
