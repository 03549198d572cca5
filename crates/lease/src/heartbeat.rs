//! When a lease is renewed, and when the process that holds it stops.

use std::time::Duration;

use crate::Term;

/// Interval of renewals: this, or a quarter of the lease if that is shorter.
const RENEW_EVERY: Duration = Duration::from_secs(1);
/// The pause after a renewal that failed.
const RETRY: Duration = Duration::from_millis(250);

/// The renewals of one lease.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat {
    lease: Duration,
}

/// Result of an attempt to renew a lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Renewal {
    /// The store has renewed it, and the process may act as long as this.
    Renewed(Term),
    /// It has ended in the store.
    Refused,
    /// It is not known, or nothing was done.
    Failed,
}

/// Next step of a lease's holder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// It may act for this term, and renews the lease after this pause.
    Continue(Term, Duration),
    /// It may not act any more, for this reason, and ends.
    End(String),
}

impl Heartbeat {
    /// Creates the heartbeat for a lease of this length.
    pub const fn new(lease: Duration) -> Self {
        Self { lease }
    }

    /// The length of the lease.
    pub const fn lease(self) -> Duration {
        self.lease
    }

    /// The pause between two renewals.
    pub fn pause(self) -> Duration {
        RENEW_EVERY.min(self.lease / 4)
    }

    /// Next step after an attempt that ends `now`. `term` is what the process had until then.
    pub fn after(self, renewal: Renewal, term: Term, now: u64) -> Next {
        let half = self.lease.as_secs_f64() / 2.0;
        let late = || {
            Next::End(format!(
                "it could not renew its lease for {half} s, half of the lease"
            ))
        };
        match renewal {
            Renewal::Refused => {
                let reason = "its lease has ended in the store, where others may have taken its sessions";
                Next::End(reason.to_owned())
            }
            // The answer may have taken longer than the lease.
            Renewal::Renewed(next) => match term.renewed(now, next).filter(|next| next.is_valid(now)) {
                Some(next) => Next::Continue(next, self.pause()),
                None => late(),
            },
            Renewal::Failed if term.is_valid(now) => Next::Continue(term, RETRY),
            Renewal::Failed => late(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);
    const BEAT: Heartbeat = Heartbeat::new(LEASE);

    fn reason(next: Next) -> String {
        match next {
            Next::End(reason) => reason,
            Next::Continue(..) => panic!("{next:?}"),
        }
    }

    #[test]
    fn a_renewal_that_fails_is_tried_again_while_the_term_is_valid() {
        let term = Term::granted(0, LEASE);
        assert_eq!(
            BEAT.after(Renewal::Failed, term, 2_500_000),
            Next::Continue(term, RETRY)
        );
        let ended = BEAT.after(Renewal::Failed, term, 2_500_001);
        assert_eq!(
            reason(ended),
            "it could not renew its lease for 2.5 s, half of the lease"
        );
        assert!(
            reason(BEAT.after(Renewal::Refused, term, 1)).starts_with("its lease has ended in the store")
        );
    }

    #[test]
    fn an_answer_that_comes_after_the_term_renews_nothing() {
        let (term, next) = (Term::granted(0, LEASE), Term::granted(2_400_000, LEASE));
        let renewed = Renewal::Renewed(next);
        assert_eq!(
            BEAT.after(renewed, term, 2_500_000),
            Next::Continue(next, RENEW_EVERY)
        );
        assert!(reason(BEAT.after(renewed, term, 2_500_001)).starts_with("it could not renew"));
        // It was asked so long ago that it is of no use.
        let useless = Renewal::Renewed(Term::granted(0, LEASE));
        assert!(reason(BEAT.after(useless, Term::until(9_000_000), 2_500_001)).starts_with("it could not"));
    }

    #[test]
    fn short_leases_are_renewed_more_often() {
        assert_eq!(BEAT.pause(), RENEW_EVERY);
        assert_eq!(Heartbeat::new(Duration::from_secs(1)).pause(), RETRY);
    }
}
