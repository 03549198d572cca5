//! Waiting for the end of a process, and looking at its log meanwhile.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::log::bound_log;
use super::proc::ProcessId;

/// Interval of checks of a process on operating system kernels without pidfd.
const POLL: Duration = Duration::from_millis(100);
/// Interval of checks of the log's size.
const LOG_CHECK: Duration = Duration::from_secs(30);

/// Calls `look` when the process may have ended, until it gives something; keeps the log short meanwhile.
pub(crate) async fn until<T>(process: ProcessId, log: &Path, mut look: impl FnMut() -> Option<T>) -> T {
    let mut pidfd = process.pidfd().and_then(|fd| watchable(fd, Interest::READABLE));
    loop {
        if let Some(found) = look() {
            return found;
        }
        if next_look(&mut pidfd).await {
            let log = log.to_owned();
            let _ = tokio::task::spawn_blocking(move || bound_log(&log)).await;
        }
    }
}

/// Hands the descriptor to the runtime's poller.
#[expect(
    deprecated,
    reason = "its successor is unsafe for the sake of types whose descriptor may change; this one's cannot"
)]
pub(crate) fn watchable(fd: OwnedFd, interest: Interest) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest).ok()
}

/// Waits for a reason to look again; `true` when it is also time to look at the log.
async fn next_look(pidfd: &mut Option<AsyncFd<OwnedFd>>) -> bool {
    let Some(fd) = pidfd else {
        tokio::time::sleep(POLL).await;
        return true;
    };
    tokio::select! {
        ready = fd.readable() => {
            if ready.is_err() {
                *pidfd = None;
            }
            false
        }
        () = tokio::time::sleep(LOG_CHECK) => true,
    }
}
