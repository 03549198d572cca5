//! Time for which a process may act.

use std::time::Duration;

/// Until when a process may act as its replica: microseconds of a clock that counts the time in which the process, or its machine, was
/// suspended.
///
/// Others may act once the whole lease has ended by the clock of the store. A process may act for half of it, from before the statement
/// was sent that gave it. The other half is the margin for clocks that differ in speed, and for what is already under way when the
/// process looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Term(u64);

impl Term {
    /// Term of the only gateway on a store.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// Term of a process that may not act any more.
    pub const ENDED: Self = Self(0);

    /// Term from a statement that was sent at `asked`, for a lease of this length.
    pub fn granted(asked: u64, lease: Duration) -> Self {
        Self::until(asked.saturating_add(micros(lease / 2)))
    }

    /// One that ends after this time.
    pub const fn until(micros: u64) -> Self {
        Self(micros)
    }

    /// The last time at which it is valid: [`Term::until`].
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// True if the process may act at this time.
    pub fn is_valid(self, now: u64) -> bool {
        self == Self::UNLIMITED || (self != Self::ENDED && now <= self.0)
    }

    /// The next one, unless this one has ended: what has ended is not renewed, since others may have acted already.
    pub fn renewed(self, now: u64, next: Self) -> Option<Self> {
        self.is_valid(now).then_some(next)
    }

    /// The time that is left; of one that never ends, nothing.
    pub fn left(self, now: u64) -> Duration {
        if self == Self::UNLIMITED {
            return Duration::ZERO;
        }
        Duration::from_micros(self.0.saturating_sub(now))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    #[test]
    fn it_is_valid_for_half_of_the_lease() {
        let term = Term::granted(1_000_000, LEASE);
        assert!(term.is_valid(3_500_000) && !term.is_valid(3_500_001));
        assert_eq!(term.left(3_000_000), Duration::from_millis(500));
        assert_eq!(term.left(4_000_000), Duration::ZERO);
    }

    #[test]
    fn what_has_ended_is_not_renewed() {
        let (term, next) = (Term::granted(0, LEASE), Term::granted(2_000_000, LEASE));
        assert_eq!(term.renewed(2_500_000, next), Some(next));
        assert_eq!(term.renewed(2_500_001, next), None);
        assert_eq!(Term::ENDED.renewed(0, next), None);
        assert!(!Term::ENDED.is_valid(0));
        assert!(Term::UNLIMITED.is_valid(u64::MAX));
    }
}
