use std::time::Duration;

use tokio::time::Instant;

/// An `accepted`, and what announces that something begins, wait at most this long for other frames.
pub(crate) const COALESCE_WINDOW: Duration = Duration::from_millis(10);

/// Since when something of a lane waits to be sent along with something else, and the timer that ends the wait.
///
/// The timer continues when all has been sent, since each new deadline costs tokio a write to its own eventfd. What it
/// was set for may be gone when it fires, and what waits may have come a moment ago: cells shorter than the wait are not cut
/// in two.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    since: Option<Instant>,
    armed: bool,
}

/// Action when the timer has fired.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TimerAction {
    /// Send what waits.
    Send,
    /// Set the timer to this time.
    Again(Instant),
    /// The queue is empty.
    Nothing,
}

impl Coalescer {
    /// Something waits from now on. Gives the time to set the timer to, if it does not run.
    pub(crate) fn add(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        (!std::mem::replace(&mut self.armed, true)).then(|| since + COALESCE_WINDOW)
    }

    /// Resets the coalescer after everything was sent.
    pub(crate) fn sent(&mut self) {
        self.since = None;
    }

    /// Does the timer run?
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    pub(crate) fn timer_fired(&mut self, now: Instant) -> TimerAction {
        let over = self.since.map(|since| since + COALESCE_WINDOW);
        self.armed = over.is_some_and(|over| over > now);
        match over {
            None => TimerAction::Nothing,
            Some(over) if self.armed => TimerAction::Again(over),
            Some(_) => TimerAction::Send,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_longer_than_it_may_and_what_came_late_waits_as_long() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut coalescer = Coalescer::default();
        assert_eq!(coalescer.add(at(0)), Some(at(10)));
        assert_eq!(coalescer.add(at(4)), None, "the timer runs");
        assert_eq!(coalescer.timer_fired(at(10)), TimerAction::Send);
        coalescer.sent();
        assert!(!coalescer.is_armed());
        // The first went along with something, the second came at 19.
        assert_eq!(coalescer.add(at(12)), Some(at(22)));
        coalescer.sent();
        assert_eq!(coalescer.add(at(19)), None);
        assert_eq!(coalescer.timer_fired(at(22)), TimerAction::Again(at(29)));
        assert!(coalescer.is_armed());
        assert_eq!(coalescer.timer_fired(at(29)), TimerAction::Send);
        coalescer.sent();
        assert_eq!(coalescer.add(at(30)), Some(at(40)));
        coalescer.sent();
        assert_eq!(coalescer.timer_fired(at(40)), TimerAction::Nothing);
        assert!(!coalescer.is_armed());
    }
}
