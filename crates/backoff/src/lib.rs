//! Exponential back-off: pauses between attempts that double up to a longest one. Sans-IO: the caller waits.

use std::time::Duration;

/// Pauses of one series of attempts.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins with the pause `first`; no pause is longer than `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The pause after one more failure: twice as long as the one before.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }

    /// Begins with the first pause again, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A part of a pause, between half and all of it, so that clients that failed together do not try again together. `chance` is from 0 to 1.
pub fn jittered(pause: Duration, chance: f64) -> Duration {
    pause.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
}

/// The pause after `failures` earlier failures, for a caller that counts them: `first` doubled as often, at most `longest`. All have one unit.
pub fn doubled(first: u64, failures: u32, longest: u64) -> u64 {
    let factor = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        assert_eq!([(); 5].map(|()| backoff.pause().as_secs()), [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.pause(), seconds(1));
        assert_eq!(Backoff::new(seconds(9), seconds(5)).pause(), seconds(5));
    }

    #[test]
    fn jitter_keeps_at_least_half() {
        let pause = Duration::from_mins(1);
        let parts = [-1.0, 0.0, 0.5, 1.0, 2.0].map(|chance| jittered(pause, chance).as_secs());
        assert_eq!(parts, [30, 30, 45, 60, 60]);
    }

    #[test]
    fn counted_failures_give_the_same_pauses() {
        let pauses = [0, 1, 2, 3, 64, u32::MAX].map(|failures| doubled(3, failures, 20));
        assert_eq!(pauses, [3, 6, 12, 20, 20, 20]);
        assert_eq!(doubled(0, 5, 20), 0);
    }
}
