use std::time::Duration;

use tokio::time::Instant;

/// An `accepted`, and what announces a beginning, wait at most this long for company.
pub(crate) const COMPANY: Duration = Duration::from_millis(10);

/// Since when something of a lane waits to be sent along with something else, and the timer that ends the wait.
///
/// The timer goes on when all has been sent, since each new deadline costs tokio a write to its own eventfd. What it rings
/// for may be gone then, and what waits may have come a moment ago: cells shorter than the wait are not cut in two.
#[derive(Debug, Default)]
pub(crate) struct Company {
    since: Option<Instant>,
    armed: bool,
}

/// What is to be done when the timer rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ring {
    /// Send what waits.
    Send,
    /// Set the timer to this time.
    Again(Instant),
    /// Nothing waits.
    Nothing,
}

impl Company {
    /// Something waits from now on. Gives the time to set the timer to, if it does not run.
    pub(crate) fn joins(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        (!std::mem::replace(&mut self.armed, true)).then(|| since + COMPANY)
    }

    /// Everything was sent.
    pub(crate) fn goes(&mut self) {
        self.since = None;
    }

    /// Does the timer run?
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// The timer has rung.
    pub(crate) fn rings(&mut self, now: Instant) -> Ring {
        let over = self.since.map(|since| since + COMPANY);
        self.armed = over.is_some_and(|over| over > now);
        match over {
            None => Ring::Nothing,
            Some(over) if self.armed => Ring::Again(over),
            Some(_) => Ring::Send,
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
        let mut company = Company::default();
        assert_eq!(company.joins(at(0)), Some(at(10)));
        assert_eq!(company.joins(at(4)), None, "the timer runs");
        assert_eq!(company.rings(at(10)), Ring::Send);
        company.goes();
        assert!(!company.is_armed());
        // The first went along with something, the second came at 19.
        assert_eq!(company.joins(at(12)), Some(at(22)));
        company.goes();
        assert_eq!(company.joins(at(19)), None);
        assert_eq!(company.rings(at(22)), Ring::Again(at(29)));
        assert!(company.is_armed());
        assert_eq!(company.rings(at(29)), Ring::Send);
        company.goes();
        assert_eq!(company.joins(at(30)), Some(at(40)));
        company.goes();
        assert_eq!(company.rings(at(40)), Ring::Nothing);
        assert!(!company.is_armed());
    }
}
