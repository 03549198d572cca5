//! The pauses between two dials.

use std::time::Duration;

/// Steps of the jitter.
const STEPS: u32 = 1024;

/// Doubles the pause from dial to dial.
#[derive(Debug)]
pub struct Redial {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Redial {
    /// From the first pause to the longest, before jitter.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// A connection was of use and has ended after so long. The next pause is short again if that was at least the longest
    /// pause, so that a peer that welcomes and hangs up is not hammered.
    pub fn connected(&mut self, lasted: Duration) {
        if lasted >= self.longest {
            self.next = self.first;
        }
    }

    /// How long to wait before the next dial: up to half more or less than its turn, by `random`, so that those that lost
    /// the same peer do not dial in step.
    pub fn pause(&mut self, random: u64) -> Duration {
        let base = self.next;
        self.next = (base * 2).min(self.longest);
        let share = u32::try_from(random % u64::from(STEPS)).unwrap_or(0);
        base / 2 + base * share / STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `random` without jitter.
    const MIDDLE: u64 = 512;
    const FIRST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(200);

    fn pauses(redial: &mut Redial, count: usize) -> Vec<u128> {
        (0..count).map(|_| redial.pause(MIDDLE).as_millis()).collect()
    }

    #[test]
    fn pauses_begin_short_and_grow_to_the_longest() {
        let mut redial = Redial::new(FIRST, LONGEST);
        assert_eq!(pauses(&mut redial, 10), [1, 2, 4, 8, 16, 32, 64, 128, 200, 200]);
    }

    #[test]
    fn they_begin_short_again_after_a_connection_that_lasted() {
        let mut redial = Redial::new(FIRST, LONGEST);
        pauses(&mut redial, 20);
        redial.connected(LONGEST);
        assert_eq!(pauses(&mut redial, 2), [1, 2]);
    }

    #[test]
    fn a_gateway_that_hangs_up_at_once_is_not_hammered() {
        let mut redial = Redial::new(FIRST, LONGEST);
        for _ in 0..20 {
            redial.connected(Duration::from_millis(1));
            redial.pause(MIDDLE);
        }
        assert_eq!(redial.pause(MIDDLE), LONGEST);
    }

    #[test]
    fn shims_do_not_dial_in_step() {
        let mut late = Redial::new(FIRST, LONGEST);
        pauses(&mut late, 20);
        assert_eq!(late.pause(0), LONGEST / 2);
        let most = late.pause(u64::from(STEPS) - 1);
        assert!(most > LONGEST && most < LONGEST * 3 / 2);
    }
}
