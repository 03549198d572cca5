//! Enforces memory limits by measuring, for sandboxes without a control group.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::process::Signal;

use super::inner::Inner;
use super::member::Member;
use super::memory::Reading;
use crate::host::proc::{Process, family};
use crate::host::{blocking, short};

/// Pause between two looks while every sandbox is below half of its limit.
const CALM: Duration = Duration::from_secs(1);
/// Pause while one is not.
const CLOSE: Duration = Duration::from_millis(100);

/// Sees to it that this sandbox is watched, if it has a limit to watch. One task watches all of them, since each look
/// reads the whole process table.
pub(super) fn ensure(inner: &Arc<Inner>, member: &Member) {
    if member.watched_memory().is_none() || inner.watching.swap(true, Ordering::AcqRel) {
        return;
    }
    let inner = Arc::downgrade(inner);
    tokio::spawn(async move {
        loop {
            let look = inner.clone();
            match blocking(move || look_once(&look)).await {
                Ok(Some(pause)) => tokio::time::sleep(pause).await,
                Ok(None) | Err(_) => return,
            }
        }
    });
}

/// Measures every sandbox and kills the biggest process of those over their limit; gives back the pause until the next
/// look. `None` when the provisioner is gone.
fn look_once(inner: &Weak<Inner>) -> Option<Duration> {
    let inner = inner.upgrade()?;
    let mut pause = CALM;
    let watched: Vec<(Arc<Member>, u64)> = inner
        .members
        .live()
        .into_iter()
        .filter_map(|member| {
            let limit = member.watched_memory()?;
            Some((member, limit))
        })
        .collect();
    if watched.is_empty() {
        return Some(pause);
    }
    let all = Process::all().unwrap_or_default();
    for (member, limit) in watched {
        let reading = Reading::take(&family(&all, member.init), limit);
        if reading.bytes > limit / 2 {
            pause = CLOSE;
        }
        if reading.bytes <= limit {
            continue;
        }
        let Some(biggest) = reading.biggest else { continue };
        // Counted before the kill: the task that sees the end reads the count.
        member.watch_kills.fetch_add(1, Ordering::AcqRel);
        tracing::info!(sandbox = %short(member.id), bytes = reading.bytes, limit, "a sandbox is over its memory");
        if let Err(error) = biggest.signal(Signal::KILL) {
            tracing::warn!(pid = biggest.pid, %error, "cannot kill a process of a sandbox");
        }
    }
    Some(pause)
}
