//! Waiting for a condition: tests say what must become true, never how long it takes.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long tests wait for something before they fail: 30 s, or `HIMALIA_PATIENCE_S` seconds.
pub fn patience() -> Duration {
    let seconds = std::env::var("HIMALIA_PATIENCE_S")
        .ok()
        .and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(30))
}

/// The end of a test's patience.
#[derive(Copy, Clone, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Patience that begins now.
    #[allow(clippy::new_without_default)] // A deadline depends on the moment.
    pub fn new() -> Self {
        Self::after(patience())
    }

    /// Patience of another length.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Waits a moment before the condition is looked at again.
    pub async fn pause(self) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for a future, and fails with what it was when patience ends.
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> Result<T> {
    let time = patience();
    tokio::time::timeout(time, work)
        .await
        .map_err(|_| anyhow!("{what}: nothing within {time:?}"))
}

/// Looks at a condition until it holds, where nothing can be awaited.
///
/// # Errors
/// When patience ends, or the condition fails.
pub fn block_until(mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Deadline::new();
    while !condition()? {
        anyhow::ensure!(!deadline.is_over(), "not within {:?}", patience());
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Looks at a condition until it holds; panics when patience ends. The condition may `.await`.
///
/// ```text
/// assert_eventually!(gateway.kernels().await?.is_empty(), "kernels are left");
/// ```
#[macro_export]
macro_rules! assert_eventually {
    ($condition:expr $(,)?) => {
        $crate::assert_eventually!($condition, "{}", stringify!($condition))
    };
    ($condition:expr, $($message:tt)+) => {{
        let deadline = $crate::patience::Deadline::new();
        while !$condition {
            assert!(!deadline.is_over(), "not within {:?}: {}", $crate::patience::patience(), format!($($message)+));
            deadline.pause().await;
        }
    }};
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn waits_for_a_condition() {
        let mut looks = 0;
        assert_eventually!({
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }
}
