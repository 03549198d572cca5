//! Periodic work: one runner for all of it, which counts runs and logs when a task begins to fail and succeeds again.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::SessionManager;

/// Reason of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The interval has passed.
    Interval,
    /// [`PeriodicTask::early`] completed.
    Event,
}

/// Work that is repeated until the gateway stops.
pub(crate) trait PeriodicTask: Send + 'static {
    /// Name in metrics and logs; the crate `metrics` lists all.
    const NAME: &'static str;
    /// True if the first run waits for an interval.
    const WAITS: bool = false;

    /// Does the work once. The error is a reason for the log; the next run follows at its usual time.
    fn run(
        &mut self,
        manager: &Arc<SessionManager>,
        wake: Wake,
    ) -> impl Future<Output = Result<(), String>> + Send;

    /// Completes when a run is due before its time. Cancel-safe.
    fn early(&self, _manager: &SessionManager) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Ends the task between two runs.
    fn stop(manager: &SessionManager) -> &CancellationToken {
        &manager.draining
    }
}

impl SessionManager {
    /// Runs a task at an interval, until the gateway stops. A run that takes longer delays the next ones.
    pub(crate) fn spawn_periodic<T: PeriodicTask + Sync>(self: &Arc<Self>, every: Duration, task: T) {
        self.background.spawn(Arc::clone(self).keep(every, task));
    }

    async fn keep<T: PeriodicTask + Sync>(self: Arc<Self>, every: Duration, mut task: T) {
        self.metrics.periodic().started(T::NAME, every);
        let first = if T::WAITS { every } else { Duration::ZERO };
        let mut ticks = interval_at(Instant::now() + first, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failures = 0_u64;
        loop {
            let wake = tokio::select! {
                () = T::stop(&self).cancelled() => return,
                _ = ticks.tick() => Wake::Interval,
                () = task.early(&self) => Wake::Event,
            };
            let done = task.run(&self, wake).await;
            self.metrics.periodic().ended(T::NAME, done.is_ok());
            match done {
                Ok(()) if failures > 0 => {
                    tracing::info!(task = T::NAME, failures, "periodic work succeeds again");
                    failures = 0;
                }
                Ok(()) => {}
                Err(error) => {
                    if failures == 0 {
                        tracing::error!(task = T::NAME, error, "periodic work failed; it is tried again");
                    }
                    failures += 1;
                }
            }
        }
    }
}
