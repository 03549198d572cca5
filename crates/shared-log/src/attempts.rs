//! Attempts at what must succeed in the end.

use std::fmt::Display;
use std::time::Duration;

use himalia_backoff::Backoff;
use tokio::time::sleep;

/// The first pause after a failure; each later one is twice as long.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses between attempts at one thing, and what the log says of them: its first failure and its success.
#[derive(Debug)]
pub(crate) struct Attempts {
    failures: u32,
    pauses: Backoff,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            failures: 0,
            pauses: Backoff::new(FIRST, LONGEST),
        }
    }
}

impl Attempts {
    /// Waits until it may be tried again.
    pub(crate) async fn failed(&mut self, error: &(impl Display + ?Sized), message: &'static str) {
        self.failures += 1;
        if self.failures == 1 {
            tracing::warn!(%error, "{message}; it is tried again until it succeeds");
        }
        sleep(self.pauses.pause()).await;
    }

    pub(crate) fn succeeded(self, message: &'static str) {
        if self.failures > 0 {
            tracing::info!(failures = self.failures, "{message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_longest() {
        let mut attempts = Attempts::default();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let before = tokio::time::Instant::now();
            attempts.failed("no", "it failed").await;
            pauses.push(before.elapsed().as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
    }
}
