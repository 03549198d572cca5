//! Flushing the logs of kernels at intervals, so that a power failure loses little.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::{SessionKernel, SessionManager};

impl SessionManager {
    /// Flushes logs that have grown, at the configured interval, until the engine stops.
    pub(crate) async fn keep_synced(self: Arc<Self>) {
        let mut ticks = interval(self.config.sync_interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stopping.actors_end.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.sync_logs().await;
        }
    }

    /// Keeps with every log where its readers are. Failures are logged: a client receives a little again.
    pub(crate) async fn keep_positions(&self) {
        let all = self.registry.all_unordered();
        let kept = tokio::task::spawn_blocking(move || {
            for handle in all {
                if let Err(error) = handle.journal.keep_positions() {
                    tracing::error!(kernel = %handle.id(), %error, "cannot keep where readers are");
                }
            }
        });
        if let Err(error) = kept.await {
            tracing::error!(%error, "keeping positions failed");
        }
    }

    /// Flushes every log that has grown. Failures are logged and tried again.
    pub(crate) async fn sync_logs(&self) {
        let dirty: Vec<Arc<SessionKernel>> = self
            .registry
            .all_unordered()
            .into_iter()
            .filter(|handle| handle.dirty.swap(false, Ordering::AcqRel))
            .collect();
        if dirty.is_empty() {
            return;
        }
        let times = self.metrics.journal().clone();
        let synced = tokio::task::spawn_blocking(move || {
            for handle in dirty {
                let begun = std::time::Instant::now();
                let synced = handle.journal.sync();
                times.sync.observe(begun.elapsed());
                if let Err(error) = synced {
                    times.failures.inc();
                    handle.dirty.store(true, Ordering::Release);
                    tracing::error!(kernel = %handle.id(), %error, "cannot flush a kernel's log");
                }
            }
        });
        if let Err(error) = synced.await {
            tracing::error!(%error, "flushing logs failed");
        }
    }
}
