//! Handles the end of a sandbox for the kernels in it.

use himalia_model::KernelId;
use himalia_provisioner::{ExitCause, SandboxHandle};
use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;

use crate::SessionManager;

/// Signal 6 on Linux, whatever the architecture.
const SIGABRT: i32 = 6;

/// The cause of death of a kernel whose shim has ended: an abort is the shim finding no memory for what the kernel sent.
fn death_cause(cause: &ExitCause) -> String {
    match cause {
        ExitCause::Signaled(SIGABRT) => "protocol_abort: the kernel sent what no message can be".to_owned(),
        ExitCause::OutOfMemory => "oom".to_owned(),
        other => format!("sandbox_lost: {other}"),
    }
}

impl SessionManager {
    /// Tells once how the sandbox ended, unless `done` is dropped first.
    pub(crate) fn watch_sandbox(
        &self,
        id: KernelId,
        sandbox: SandboxHandle,
        done: &DropGuard,
    ) -> oneshot::Receiver<String> {
        let (tell, told) = oneshot::channel();
        let done = done.token().clone();
        self.background.spawn(async move {
            let exit = tokio::select! {
                () = done.cancelled() => return,
                exit = sandbox.ended() => exit,
            };
            let Some(exit) = exit else { return };
            let log = exit.log_tail.lines().last().unwrap_or_default();
            if exit.requested {
                tracing::debug!(kernel = %id, cause = %exit.cause, "a sandbox has ended as asked");
            } else {
                tracing::warn!(kernel = %id, cause = %exit.cause, log, "a sandbox has ended without a request");
            }
            // The actor may have ended meanwhile.
            let _ = tell.send(death_cause(&exit.cause));
        });
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aborted_shim_is_the_kernels_doing() {
        assert!(death_cause(&ExitCause::Signaled(6)).starts_with("protocol_abort"));
        assert_eq!(death_cause(&ExitCause::Signaled(9)), "sandbox_lost: signal(9)");
        assert_eq!(death_cause(&ExitCause::OutOfMemory), "oom");
    }
}
