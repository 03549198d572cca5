//! Errors of requests to other replicas.

use himalia_engine::EngineError;
use thiserror::Error;

/// A request that no other replica has served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The owner could not be looked up.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No owner responded in time. Nothing was done.
    #[error("the replica that has this does not respond: {0}")]
    NoOwner(String),
    /// The request was sent, and the replica did not respond. It may have been done.
    #[error(
        "the replica that has this was lost while it handled the request, which may have been done: {reason}"
    )]
    Lost {
        /// One line.
        reason: String,
        /// The client may send the request again: it only reads, or has an idempotency key.
        repeatable: bool,
    },
    /// The principal cannot be serialised.
    #[error("relaying a request")]
    Principal,
}
