//! The pauses between two dials.

use std::time::Duration;

/// A pause is longer than the one before by this part of it.
const GROWTH: u32 = 8;
/// Steps of the jitter.
const STEPS: u32 = 1024;

/// The pause grows with the time that a peer is away: each is longer than the one before by an eighth, and so about an eighth of all before.
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

    /// Time to wait before the next dial: its turn, up to half more or less by `random`, so that those that lost the same peer do not dial in step.
    pub fn pause(&mut self, random: u64) -> Duration {
        let base = self.next;
        self.next = (base + base / GROWTH).min(self.longest);
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
    fn a_peer_that_is_back_is_dialled_within_an_eighth_of_the_time_that_it_was_away() {
        let mut redial = Redial::new(FIRST, LONGEST);
        let (mut away, mut dials) = (Duration::ZERO, 0);
        loop {
            let pause = redial.pause(MIDDLE);
            if pause == LONGEST {
                break;
            }
            assert!(
                pause <= FIRST + away / 8 && pause >= away / 8,
                "{pause:?} after {away:?}"
            );
            away += pause;
            dials += 1;
        }
        assert!(away < 9 * LONGEST && dials < 50, "{dials} dials in {away:?}");
    }

    #[test]
    fn they_begin_short_again_after_a_connection_that_lasted() {
        let mut redial = Redial::new(FIRST, LONGEST);
        pauses(&mut redial, 50);
        redial.connected(LONGEST);
        assert_eq!(pauses(&mut redial, 2), [1, 1]);
    }

    #[test]
    fn a_gateway_that_hangs_up_at_once_is_not_hammered() {
        let mut redial = Redial::new(FIRST, LONGEST);
        for _ in 0..50 {
            redial.connected(Duration::from_millis(1));
            redial.pause(MIDDLE);
        }
        assert_eq!(redial.pause(MIDDLE), LONGEST);
    }

    #[test]
    fn shims_do_not_dial_in_step() {
        let mut late = Redial::new(FIRST, LONGEST);
        pauses(&mut late, 50);
        assert_eq!(late.pause(0), LONGEST / 2);
        let most = late.pause(u64::from(STEPS) - 1);
        assert!(most > LONGEST && most < LONGEST * 3 / 2);
    }
}
