//! The lease: the time for which a replica may act.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use himalia_lease::Term;
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
    /// The [`Term`], by the boot-time clock.
    term: AtomicU64,
    lost: watch::Sender<Option<String>>,
}

impl ReplicaLease {
    /// One that never ends: of the only gateway on a store.
    pub(crate) fn unlimited() -> Self {
        Self::for_term(Term::UNLIMITED)
    }

    /// One that ends with this term, by [`boot_micros`], unless it is renewed.
    pub(crate) fn for_term(term: Term) -> Self {
        Self(Arc::new(State {
            term: AtomicU64::new(term.micros()),
            lost: watch::channel(None).0,
        }))
    }

    /// Returns true if the replica may act now. Once `false`, it stays `false`.
    pub fn is_valid(&self) -> bool {
        self.term().is_valid(boot_micros())
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
        self.term().left(boot_micros())
    }

    /// The term for which the process may act.
    pub(crate) fn term(&self) -> Term {
        Term::until(self.0.term.load(Ordering::Acquire))
    }

    /// It may act for this term. Only the task that renews the lease calls this, and [`ReplicaLease::lose`].
    pub(crate) fn renew(&self, term: Term) {
        self.0.term.store(term.micros(), Ordering::Release);
    }

    /// It has ended; the first reason counts.
    pub(crate) fn lose(&self, reason: String) {
        self.renew(Term::ENDED);
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
    fn a_lease_is_valid_while_its_term_is() {
        let lease = ReplicaLease::for_term(Term::until(boot_micros() + 60_000_000));
        assert!(lease.is_valid() && lease.left() > Duration::ZERO);
        lease.renew(Term::until(boot_micros() - 1));
        assert!(!lease.is_valid() && lease.left().is_zero());
        assert!(ReplicaLease::unlimited().is_valid());
    }

    #[tokio::test]
    async fn the_first_reason_counts() {
        let lease = ReplicaLease::for_term(Term::until(boot_micros() + 60_000_000));
        lease.lose("one".into());
        lease.lose("two".into());
        assert!(!lease.is_valid());
        assert_eq!(lease.clone().lost().await, "one");
    }
}
