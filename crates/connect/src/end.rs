//! Ends of a bridge, and the message for its user.

use std::sync::Arc;

/// Tells the user, in one line, of something that is not an answer to a client.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Reasons why a bridge could not start, or did not continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a socket.
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
    /// The path of a socket is too long, or not UTF-8.
    #[error(transparent)]
    Wire(#[from] himalia_wire::Error),
    /// The gateway was away for longer than 5 minutes, or from the beginning.
    #[error("the gateway is away: {0}")]
    Away(String),
    /// The gateway does not want this client.
    #[error("{0}")]
    Refused(String),
}

/// Regular ends of a bridge.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// By the caller. The session continues.
    Stopped,
    /// The session is gone, for this reason.
    Session(String),
}
