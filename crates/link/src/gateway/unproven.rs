//! Bounds for all callers of the sandboxes' sockets that have not shown the key yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use himalia_shim_protocol::{HEAD_BYTES, HELLO_BYTES};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Endpoint;

/// Bytes of hellos that are being read, over all sandboxes.
const BUDGET_BYTES: usize = 8 << 20;
/// One line of the log for each sandbox in this time.
const WARN_EVERY: Duration = Duration::from_mins(1);

/// Bounds for callers without the key: one object for the whole gateway.
#[derive(Debug)]
pub struct UnprovenBudget {
    room: Arc<Semaphore>,
    /// When the log last spoke of a sandbox, and how many calls were refused since then.
    warned: Mutex<HashMap<Endpoint, (Instant, u64)>>,
}

impl Default for UnprovenBudget {
    fn default() -> Self {
        Self::new(BUDGET_BYTES)
    }
}

impl UnprovenBudget {
    /// With a budget of so many bytes; room for one hello is always there.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            room: Arc::new(Semaphore::new(bytes.max(HEAD_BYTES + HELLO_BYTES))),
            warned: Mutex::default(),
        }
    }

    /// Waits for room for a frame of so many bytes, first come, first served. The room is free again when the value is dropped.
    pub(super) async fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        // It is never closed.
        Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.room.available_permits()
    }

    /// A call at this sandbox was refused. Says so in the log, at most once a minute for each sandbox.
    pub(super) fn refused(&self, sandbox: &Endpoint, reason: &str) {
        if let Some(earlier) = self.count(sandbox, Instant::now()) {
            tracing::warn!(%sandbox, earlier, reason, "a sandbox's socket was called without its key");
        }
    }

    /// Number of calls that were refused since the last log line about the sandbox, if a line is due now.
    fn count(&self, sandbox: &Endpoint, now: Instant) -> Option<u64> {
        let mut warned = self.warned.lock();
        if let Some((at, silent)) = warned.get_mut(sandbox)
            && now.saturating_duration_since(*at) < WARN_EVERY
        {
            *silent += 1;
            return None;
        }
        let silent = warned.remove(sandbox).map_or(0, |(_, silent)| silent);
        // Those of sandboxes that are gone go with the next line.
        warned.retain(|_, (at, _)| now.saturating_duration_since(*at) < WARN_EVERY);
        warned.insert(sandbox.clone(), (now, 0));
        Some(silent)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> Poll<T> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_sandbox_is_named_once_a_minute() {
        let (unproven, start) = (UnprovenBudget::default(), Instant::now());
        let [one, two, three] = ["/run/one", "/run/two", "/run/three"].map(|dir| Endpoint::Unix(dir.into()));
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(unproven.count(&one, at(0)), Some(0));
        for second in 1..60 {
            assert_eq!(unproven.count(&one, at(second)), None);
        }
        assert_eq!(unproven.count(&two, at(59)), Some(0));
        assert_eq!(unproven.count(&one, at(60)), Some(59));
        assert_eq!(unproven.count(&three, at(300)), Some(0));
        assert_eq!(unproven.warned.lock().len(), 1, "what is old is forgotten");
    }

    #[tokio::test]
    async fn what_is_read_at_once_has_a_bound_and_its_turn() {
        let unproven = UnprovenBudget::new(0);
        let most = HEAD_BYTES + HELLO_BYTES;
        let all = unproven.room(most).await.unwrap();
        let mut large = Box::pin(unproven.room(most));
        let mut small = Box::pin(unproven.room(500));
        assert!(poll(&mut large).is_pending() && poll(&mut small).is_pending());
        drop(all);
        assert!(poll(&mut small).is_pending(), "it came behind the large one");
        drop(poll(&mut large));
        assert!(poll(&mut small).is_ready());
    }
}
