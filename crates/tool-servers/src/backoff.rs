//! The pauses between attempts to connect.

use std::time::Duration;

/// Twice as long after each failure, from 1 s to 60 s, with some chance in it: servers that fail together are not asked together.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// The pause after one more failure. `chance` is from 0 to 1.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let whole = self
            .first
            .saturating_mul(1_u32.checked_shl(self.failures.min(30)).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        whole
            .min(self.longest)
            .mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// There was a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// From 0 to 1.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness the pauses are whole.
    getrandom::fill(&mut bytes).map_or(1.0, |()| {
        f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_begin_anew() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let pauses: Vec<u64> = (0..8).map(|_| backoff.next(1.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.next(0.0), Duration::from_secs(30));
        for _ in 0..100 {
            assert_eq!(backoff.next(1.0).as_secs(), 60);
        }
        backoff.reset();
        assert_eq!(backoff.next(1.0).as_secs(), 1);
        assert!((0.0..=1.0).contains(&chance()));
    }
}
