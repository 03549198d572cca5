//! The one timer of an actor.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer that is set again only for an earlier time: what is due moves with almost every message, mostly to later, and setting a
/// timer can cost the runtime a system call.
#[derive(Debug)]
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    /// When `sleep` ends, while it runs.
    set: Option<Instant>,
}

impl Alarm {
    /// An alarm that is not set.
    pub(super) fn new() -> Self {
        Self {
            sleep: Box::pin(sleep_until(Instant::now())),
            set: None,
        }
    }

    /// Ready at `due`, or never. May be called with another time each time.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, due: Option<Instant>) -> Poll<()> {
        let Some(due) = due else { return Poll::Pending };
        loop {
            if self.set.is_none_or(|set| set > due) {
                self.sleep.as_mut().reset(due);
                self.set = Some(due);
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.set = None;
            if due <= Instant::now() {
                return Poll::Ready(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_is_set_for_the_earliest_deadline_and_rings_for_the_latest() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut alarm = Alarm::new();
        for deadline in [Some(at(500)), Some(at(900)), None, Some(at(300)), Some(at(700))] {
            let rings = poll_fn(|cx| Poll::Ready(alarm.poll(cx, deadline))).await;
            assert!(rings.is_pending());
        }
        assert_eq!(alarm.set, Some(at(300)));
        let (soon, later) = (Duration::from_millis(2), Duration::from_millis(40));
        let _ = poll_fn(|cx| Poll::Ready(alarm.poll(cx, Some(start + soon)))).await;
        for due in [start + later, start + soon, Instant::now() + soon] {
            poll_fn(|cx| alarm.poll(cx, Some(due))).await;
            assert!(due <= Instant::now());
        }
    }
}
