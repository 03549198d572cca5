//! The end of a sandbox: finds its cause, and removes everything that is left.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use bollard::models::ContainerState;
use bollard::query_parameters::{InspectContainerOptions, LogsOptionsBuilder};
use futures_util::StreamExt as _;
use himalia_backoff::Backoff;

use super::client::{CallError, Client};
use super::inner::Inner;
use super::member::Member;
use super::volume::remove_container;
use crate::host::{blocking, short};
use crate::{ExitCause, Isolation, LOG_TAIL_BYTES, SandboxExit};

/// First and longest pause between attempts while the engine is away.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Longest delay of the engine's report of an out-of-memory kill on a loaded host. Only unrequested ends that look like such a kill wait
/// for it.
const LATE_KILL: Duration = Duration::from_secs(2);
/// An out-of-memory kill explains an end that came at most this much later, in nanoseconds.
const KILL_EXPLAINS: i64 = 5_000_000_000;
/// Lines of the log that are asked for; what is kept of them is bounded in bytes.
const LOG_LINES: &str = "400";
/// The code that the engine gives to containers whose end it did not see.
const UNKNOWN_CODE: i64 = 255;

/// Removes what is left of a sandbox whose container has ended, then tells its end.
pub(super) fn see_to(inner: &Arc<Inner>, member: Arc<Member>) {
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let Some(cause) = cause(&inner, &member).await else {
            member.lives();
            return;
        };
        let log_tail = log_tail(&inner.client, &member.container).await;
        remove(&inner, &member).await;
        let exit = SandboxExit {
            cause,
            requested: member.is_stopping(),
            leftovers: 0,
            log_tail,
        };
        inner.forget(member.id);
        member.exit.send_replace(Some(exit));
    });
}

/// Removes the container and the files, however long it takes; the container first, since its processes use the files.
pub(super) async fn remove(inner: &Arc<Inner>, member: &Member) {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    while member.in_engine.load(Ordering::Acquire)
        && let Err(error) = remove_container(&inner.client, &member.container).await
    {
        tracing::warn!(sandbox = %short(member.id), ?error, "a container cannot be removed yet");
        tokio::time::sleep(backoff.pause()).await;
    }
    let (layout, id) = (inner.layout.clone(), member.id);
    if let Ok(Err(error)) = blocking(move || layout.remove(id)).await {
        tracing::warn!(sandbox = %short(id), %error, "files of a sandbox remain");
    }
}

/// Cause of the end; `None` if the container runs.
async fn cause(inner: &Inner, member: &Member) -> Option<ExitCause> {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let state = loop {
        match state(inner, member).await {
            Ok(state) => break state,
            Err(CallError::NotFound(_)) => {
                // Another client of the engine removed it; the event may have had the code.
                let code = member.reported_code();
                return Some(code.map_or(ExitCause::Lost, plain));
            }
            Err(_) => tokio::time::sleep(backoff.pause()).await,
        }
    };
    if state.running == Some(true) {
        return None;
    }
    let code = state.exit_code.or(member.reported_code()).unwrap_or(UNKNOWN_CODE);
    if code == UNKNOWN_CODE {
        return Some(ExitCause::Lost);
    }
    if may_be_memory(member, code) && !member.is_stopping() && was_out_of_memory(inner, member, &state).await
    {
        return Some(ExitCause::OutOfMemory);
    }
    Some(plain(code))
}

/// Returns true if an end with this code can be out of memory. If the sandbox has its own operating system kernel, which was killed, the
/// code does not show it.
fn may_be_memory(member: &Member, code: i64) -> bool {
    let level = member.details().map(|details| details.labels.isolation);
    plain(code) == ExitCause::Signaled(9) || (level > Some(Isolation::Container) && code != 0)
}

/// Returns true if the memory limit ended the sandbox. The engine's flag stays set after any process was killed, so the time of the last
/// kill decides, if there was an event for it. A kill before this gateway process started is ignored.
async fn was_out_of_memory(inner: &Inner, member: &Member, found: &ContainerState) -> bool {
    let is_told = !member.had_earlier_kills();
    let mut flag = is_told && found.oom_killed == Some(true);
    if !flag {
        let late = tokio::time::timeout(LATE_KILL, async {
            while member.last_kill().is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        if late.await.is_err() && is_told {
            let found = state(inner, member).await;
            flag = found.is_ok_and(|state| state.oom_killed == Some(true));
        }
    }
    match member.last_kill() {
        Some(at) => now_nanos().saturating_sub(at) < KILL_EXPLAINS,
        None => flag,
    }
}

async fn state(inner: &Inner, member: &Member) -> Result<ContainerState, CallError> {
    let found = inner.client.call(async |docker| {
        let options = None::<InspectContainerOptions>;
        docker.inspect_container(&member.container, options).await
    });
    Ok(found.await?.state.unwrap_or_default())
}

/// The engine's clock, as it is this host's.
pub(super) fn now_nanos() -> i64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// The cause that an exit code tells: shells and engines give 128 and more to signals.
fn plain(code: i64) -> ExitCause {
    match i32::try_from(code) {
        Ok(code @ 129..=192) => ExitCause::Signaled(code - 128),
        Ok(code) => ExitCause::Exited(code),
        Err(_) => ExitCause::Lost,
    }
}

/// The end of what the shim printed.
async fn log_tail(client: &Client, container: &str) -> String {
    let options = LogsOptionsBuilder::new()
        .stdout(true)
        .stderr(true)
        .tail(LOG_LINES)
        .build();
    let read = client.call(async |docker| {
        let mut lines = docker.logs(container, Some(options));
        let mut tail = Vec::new();
        while let Some(line) = lines.next().await {
            tail.extend_from_slice(&line?.into_bytes());
            // Cut now and then, so that no log of any size is held.
            if tail.len() > 4 * LOG_TAIL_BYTES {
                tail.drain(..tail.len() - LOG_TAIL_BYTES);
            }
        }
        Ok(tail)
    });
    let tail = read.await.unwrap_or_default();
    let from = tail.len().saturating_sub(LOG_TAIL_BYTES);
    String::from_utf8_lossy(&tail[from..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_signals_are_told_apart() {
        assert_eq!(plain(0), ExitCause::Exited(0));
        assert_eq!(plain(7), ExitCause::Exited(7));
        assert_eq!(plain(128), ExitCause::Exited(128));
        assert_eq!(plain(137), ExitCause::Signaled(9));
        assert_eq!(plain(143), ExitCause::Signaled(15));
        assert_eq!(plain(255), ExitCause::Exited(255));
        assert_eq!(plain(i64::MAX), ExitCause::Lost);
    }
}
