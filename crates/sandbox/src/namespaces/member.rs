//! One sandbox that this gateway process watches until its end.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use tokio::sync::oneshot;
use tokio::sync::watch::Sender;

use super::record::Record;
use crate::host::layout::Layout;
use crate::host::proc::ProcessId;
use crate::host::watch;
use crate::{ExitCause, SandboxExit, SandboxId};

/// Longest wait for a zygote's report of how an ended process ended.
const STATUS_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: SandboxId,
    /// The first process: with it all others end.
    pub(super) init: ProcessId,
    /// Changes with its limits.
    record: Mutex<Record>,
    pub(super) exit: Sender<Option<SandboxExit>>,
    pub(super) stopping: AtomicBool,
    /// Processes that the watch over memory killed.
    pub(super) watch_kills: AtomicU64,
    /// Out-of-memory kills that were reported.
    reported_kills: AtomicU64,
    /// The zygote that started it will say how it ended.
    status: Mutex<Option<oneshot::Receiver<i32>>>,
    pidfd: Option<OwnedFd>,
}

impl Member {
    pub(super) fn new(record: Record, init: ProcessId, status: Option<oneshot::Receiver<i32>>) -> Self {
        Self {
            id: record.id,
            init,
            exit: Sender::new(None),
            stopping: AtomicBool::new(false),
            watch_kills: AtomicU64::new(0),
            reported_kills: AtomicU64::new(record.details.groups.oom_kills().unwrap_or(0)),
            status: Mutex::new(status),
            pidfd: init.pidfd(),
            record: Mutex::new(record),
        }
    }

    pub(super) fn record(&self) -> Record {
        self.record.lock().clone()
    }

    pub(super) fn set_record(&self, record: Record) {
        *self.record.lock() = record;
    }

    /// Descriptor of the first process; `None` on hosts without pidfd, or if the process had ended.
    pub(super) fn pidfd(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref()
    }

    /// Memory that the watch holds it to, in bytes.
    pub(super) fn watched_memory(&self) -> Option<u64> {
        self.record.lock().details.watched_memory
    }

    /// Out-of-memory kills, which count as reported from now on.
    pub(super) fn oom_kills(&self) -> u64 {
        let kills = self.count_kills();
        self.reported_kills.fetch_max(kills, Ordering::AcqRel);
        kills
    }

    fn count_kills(&self) -> u64 {
        let groups = self.record.lock().details.groups.clone();
        let kernel = groups.oom_kills().unwrap_or(0);
        kernel.saturating_add(self.watch_kills.load(Ordering::Acquire))
    }

    /// Waits until the first process, and so every process, has ended.
    pub(super) async fn ended(&self, layout: &Layout) -> ExitCause {
        let cause = watch::until(self.init, &layout.log(self.id), || self.look()).await;
        let told = self.status.lock().take();
        let cause = match (cause, told) {
            (ExitCause::Lost, Some(status)) => match tokio::time::timeout(STATUS_PATIENCE, status).await {
                Ok(Ok(status)) => of_wait_status(status),
                // The zygote is gone.
                _ => ExitCause::Lost,
            },
            (cause, _) => cause,
        };
        let killed = matches!(cause, ExitCause::Lost) || cause == ExitCause::Signaled(Signal::KILL.as_raw());
        // A kill that was not reported yet is this one.
        if killed && self.count_kills() > self.reported_kills.load(Ordering::Acquire) {
            return ExitCause::OutOfMemory;
        }
        cause
    }

    /// It is our child when `himalia-jail` left it to us, or its zygote died; else there is only its absence.
    fn look(&self) -> Option<ExitCause> {
        use std::os::fd::AsFd as _;
        if let Some(pidfd) = &self.pidfd {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            match waitid(WaitId::PidFd(pidfd.as_fd()), options) {
                Ok(Some(status)) => {
                    let code = status.exit_status().map(ExitCause::Exited);
                    let signal = || status.terminating_signal().map(ExitCause::Signaled);
                    return Some(code.or_else(signal).unwrap_or(ExitCause::Lost));
                }
                Ok(None) => return None,
                Err(_) => {}
            }
        }
        self.init.find().is_none().then_some(ExitCause::Lost)
    }
}

/// Reads a status as `waitpid(2)` gives it.
fn of_wait_status(status: i32) -> ExitCause {
    use std::os::unix::process::ExitStatusExt as _;
    let status = std::process::ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCause::Exited(code),
        (None, Some(signal)) => ExitCause::Signaled(signal),
        (None, None) => ExitCause::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_read() {
        assert_eq!(of_wait_status(3 << 8), ExitCause::Exited(3));
        assert_eq!(of_wait_status(9), ExitCause::Signaled(9));
        // Signal 11 with a core dump.
        assert_eq!(of_wait_status(139), ExitCause::Signaled(11));
    }
}
