//! How long a replica may act.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// The right of this process to act as its replica: to write, to send to kernels, to answer. Clones are the same lease.
///
/// It is measured with the boot-time clock, which counts the time in which the machine or the process was suspended. A process
/// that wakes up after too long finds its lease invalid before any timer has run.
#[derive(Clone, Debug)]
pub struct ReplicaLease(Arc<State>);

#[derive(Debug)]
struct State {
    /// Until when it may act, microseconds of the boot-time clock; `u64::MAX`: always.
    until: AtomicU64,
    lost: watch::Sender<Option<String>>,
}

impl ReplicaLease {
    /// One that never ends: of the only gateway on a store.
    pub(crate) fn unlimited() -> Self {
        Self::until(u64::MAX)
    }

    /// One that ends at this time of [`boot_micros`] unless it is renewed.
    pub(crate) fn until(micros: u64) -> Self {
        Self(Arc::new(State {
            until: AtomicU64::new(micros),
            lost: watch::channel(None).0,
        }))
    }

    /// Whether the replica may act now. Once `false`, it stays `false`.
    pub fn is_valid(&self) -> bool {
        let until = self.0.until.load(Ordering::Acquire);
        until == u64::MAX || (boot_micros() <= until && self.0.lost.borrow().is_none())
    }

    /// Completes when the lease is lost, with the reason.
    pub async fn lost(&self) -> String {
        let mut lost = self.0.lost.subscribe();
        loop {
            if let Some(reason) = &*lost.borrow_and_update() {
                return reason.clone();
            }
            if lost.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The time that is left; of one that never ends, nothing.
    pub fn left(&self) -> Duration {
        let until = self.0.until.load(Ordering::Acquire);
        if until == u64::MAX {
            return Duration::ZERO;
        }
        Duration::from_micros(until.saturating_sub(boot_micros()))
    }

    /// It is valid until this time, unless it has ended already: `false`.
    pub(crate) fn renew(&self, until: u64) -> bool {
        if !self.is_valid() {
            return false;
        }
        self.0.until.store(until, Ordering::Release);
        true
    }

    /// It has ended; the first reason counts.
    pub(crate) fn lose(&self, reason: String) {
        self.0.until.store(0, Ordering::Release);
        self.0.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            lost.get_or_insert(reason);
            first
        });
    }
}

/// Microseconds since the machine was booted, suspended or not.
pub(crate) fn boot_micros() -> u64 {
    let since = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(since.tv_sec).unwrap_or(0);
    let micros = u64::try_from(since.tv_nsec / 1000).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_has_ended_is_not_renewed() {
        let later = boot_micros() + 60_000_000;
        let lease = ReplicaLease::until(later);
        assert!(lease.is_valid() && lease.renew(later + 1));
        lease.0.until.store(boot_micros() - 1, Ordering::Release);
        assert!(!lease.is_valid() && !lease.renew(later));
        assert!(!lease.is_valid());
        assert!(ReplicaLease::unlimited().is_valid());
    }

    #[tokio::test]
    async fn the_first_reason_counts() {
        let lease = ReplicaLease::until(boot_micros() + 60_000_000);
        lease.lose("one".into());
        lease.lose("two".into());
        assert!(!lease.is_valid());
        assert_eq!(lease.clone().lost().await, "one");
    }
}
