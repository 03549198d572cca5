//! What every provisioner of processes on this host needs: files with secret names in a run directory, records by which
//! a later gateway process finds its sandboxes again, and processes that cannot be mistaken for others.

pub(crate) mod backoff;
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

/// How long after a process was killed for memory the counters of this host may still be without it.
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
