//! Pauses between attempts.

use std::time::Duration;

/// Exponential back-off: each pause is twice the previous one, up to the longest.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new((first, longest): (Duration, Duration)) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// The next pause.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Starts again with the first pause.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new((seconds(1), seconds(5)));
        assert_eq!([(); 5].map(|()| backoff.pause().as_secs()), [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.pause(), seconds(1));
    }
}
