//! State of a tool server.

use std::sync::Arc;

use himalia_tools::{BadTools, ServerTools};

use crate::upstream::Upstream;

/// Availability of a tool server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The first attempt to connect has not ended.
    Connecting,
    /// It listed its tools.
    Ready {
        /// Since when, microseconds since 1970.
        since_micros: i64,
        /// Number of usable tools.
        tools: usize,
        /// Tools that cannot be used, with reasons.
        left_out: BadTools,
    },
    /// It cannot be called.
    Failed {
        /// Reason on one line, without secrets.
        reason: String,
        /// The way in which a person grants the credential, if that is why.
        missing_grant: Option<String>,
        /// Since when, microseconds since 1970.
        since_micros: i64,
        /// When it is tried again, microseconds since 1970.
        next_attempt_micros: i64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    pub name: String,
    /// A tenant, or `operator`.
    pub owner: String,
    /// `mcp`, `program` or `openapi`.
    pub kind: &'static str,
    /// URL of the server or of its description, path of its file, or program.
    pub location: String,
    /// Availability for calls.
    pub state: ServerState,
    /// Calls that are in progress or wait.
    pub calls: usize,
}

/// The tools of a server, and whose sessions may use them.
#[derive(Clone, Debug)]
pub struct OwnedTools {
    /// A tenant, or `operator`: all.
    pub owner: String,
    /// As it listed them last, also while it has failed.
    pub tools: Arc<ServerTools>,
}

/// State that the task of a server publishes.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) state: ServerState,
    pub(crate) tools: Option<Arc<ServerTools>>,
    /// Connection for calls; `None`: it has failed.
    pub(crate) upstream: Option<Arc<Upstream>>,
}
