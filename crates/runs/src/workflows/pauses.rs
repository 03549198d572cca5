//! Pauses between tries at what may work later.

use std::time::Duration;

/// The next pause. Each is twice as long as the one before it, up to the longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Pauses {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The pause after a failure.
    pub(super) fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = self.longest.min(pause * 2);
        pause
    }

    /// It has worked: the next failure is a first one.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_a_success() {
        let seconds = Duration::from_secs;
        let mut pauses = Pauses::new(seconds(1), seconds(5));
        let mut taken = |count: usize| (0..count).map(|_| pauses.take().as_secs()).collect::<Vec<_>>();
        assert_eq!(taken(5), [1, 2, 4, 5, 5]);
        pauses.reset();
        assert_eq!(pauses.take(), seconds(1));
    }
}
