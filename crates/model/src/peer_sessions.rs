//! Sessions of other replicas.

use serde_json::Value;

/// What the other replicas say of their sessions, in the extensions of a request that lists those of all replicas.
#[derive(Clone, Debug, Default)]
pub struct PeerSessions {
    /// As `GET /v1/sessions` shows each of them.
    pub sessions: Vec<Value>,
    /// The replicas whose sessions are not known.
    pub unanswered: Vec<String>,
}
