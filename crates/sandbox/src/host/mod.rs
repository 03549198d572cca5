//! Shared parts of the provisioners of processes on this host: files with secret names in a run directory, records by which a later gateway
//! process finds its sandboxes again, and processes identified by more than their id.

pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod members;
pub(crate) mod proc;
pub(crate) mod record;
pub(crate) mod shared;
pub(crate) mod uids;
pub(crate) mod watch;

use std::time::Duration;

use crate::{SandboxError, SandboxId};

/// Variable that marks the processes of a sandbox; its value is random and in the sandbox's record.
pub(crate) const MARK_VARIABLE: &str = "HIMALIA_SANDBOX_MARK";

/// Upper bound of the delay after which the counters of this host include an out-of-memory kill.
pub(crate) const OOM_REPORT_DELAY: Duration = Duration::from_millis(500);

/// The first digits of a name: enough to tell sandboxes apart in a log, too few to find the directory.
pub(crate) fn short(id: SandboxId) -> String {
    id.to_string().chars().take(8).collect()
}

/// Runs what touches the disk or `/proc` beside the async threads.
pub(crate) async fn blocking<T, F>(work: F) -> Result<T, SandboxError>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| SandboxError::Closed)
}
