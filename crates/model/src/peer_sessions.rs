//! Sessions of other replicas.

use serde_json::Value;

/// Sessions of the other replicas, as an extension of a request that lists the sessions of all replicas.
#[derive(Clone, Debug, Default)]
pub struct PeerSessions {
    /// As `GET /v1/sessions` shows each of them.
    pub sessions: Vec<Value>,
    /// The replicas whose sessions are not known.
    pub unanswered: Vec<String>,
}
