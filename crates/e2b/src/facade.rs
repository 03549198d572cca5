//! State of the handlers.

use std::fmt;
use std::sync::Arc;

use himalia_engine::{Engine, KernelId, Principal};
use tokio_util::sync::CancellationToken;

use crate::envd::{Processes, Watchers};
use crate::killed::KilledSandboxes;

/// Issues the token with which the caller reaches a sandbox, by its id. `None` where the caller has no credential.
pub type Issuer = Arc<dyn Fn(&Principal, &str) -> Option<String> + Send + Sync>;

/// The id of the sandbox that its owner starts with an idempotency key.
pub type OfKey = fn(&Principal, &[u8]) -> KernelId;

/// State of the handlers. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Facade {
    pub(crate) engine: Engine,
    pub(crate) issue: Issuer,
    pub(crate) of_key: OfKey,
    /// Cancelled when the gateway stops.
    pub(crate) shutdown: CancellationToken,
    /// The commands that run.
    pub(crate) processes: Processes,
    /// The directories that clients ask about.
    pub(crate) watchers: Watchers,
    pub(crate) killed: KilledSandboxes,
}

impl fmt::Debug for Facade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Facade")
    }
}
