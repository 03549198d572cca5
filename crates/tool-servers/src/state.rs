//! What is known of a server.

use std::sync::Arc;

use himalia_tools::{BadTools, ServerTools};

use crate::upstream::Upstream;

/// Whether a server can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// The first attempt to connect has not ended.
    Connecting,
    /// It listed its tools.
    Ready {
        /// Since when, microseconds since 1970.
        since_micros: i64,
        /// How many.
        tools: usize,
        /// Those that cannot be used, and why.
        left_out: BadTools,
    },
    /// It cannot be called.
    Failed {
        /// Why, on one line. Without secrets.
        reason: String,
        /// The way in which a person grants the credential, if that is why.
        missing_grant: Option<String>,
        /// Since when, microseconds since 1970.
        since_micros: i64,
        /// When it is tried again, microseconds since 1970.
        next_attempt_micros: i64,
    },
}

/// A server and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// A tenant, or `operator`.
    pub owner: String,
    /// `mcp`, `program` or `openapi`.
    pub kind: &'static str,
    /// Where it is: the URL of the server, or of its description, or the file; the program.
    pub location: String,
    /// Whether it can be called.
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

/// What the task of a server publishes.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) state: ServerState,
    pub(crate) tools: Option<Arc<ServerTools>>,
    /// What calls go through; `None`: it has failed.
    pub(crate) upstream: Option<Arc<Upstream>>,
}
