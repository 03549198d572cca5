//! Flushing the logs of kernels at intervals, so that a power failure loses little.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::periodic::{PeriodicTask, Wake};
use crate::{SessionKernel, SessionManager};

/// Flushes logs that have grown, until the actors have ended.
pub(crate) struct LogSync;

impl LogSync {
    /// Starts the task, at the configured interval.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        let every = manager.config.sync_interval.max(Duration::from_millis(1));
        manager.spawn_periodic(every, Self);
    }
}

impl PeriodicTask for LogSync {
    const NAME: &'static str = "sync_logs";

    async fn run(&mut self, manager: &Arc<SessionManager>, _: Wake) -> Result<(), String> {
        manager.sync_logs().await
    }

    fn stop(manager: &SessionManager) -> &CancellationToken {
        &manager.stopping.actors_end
    }
}

impl SessionManager {
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

    /// Flushes every log that has grown. A log that cannot be flushed is logged, and tried again at the next call.
    ///
    /// # Errors
    /// A log could not be flushed.
    pub(crate) async fn sync_logs(&self) -> Result<(), String> {
        let dirty: Vec<Arc<SessionKernel>> = self
            .registry
            .all_unordered()
            .into_iter()
            .filter(|handle| handle.dirty.swap(false, Ordering::AcqRel))
            .collect();
        if dirty.is_empty() {
            return Ok(());
        }
        let times = self.metrics.journal().clone();
        let synced = tokio::task::spawn_blocking(move || {
            let mut failed = 0;
            for handle in dirty {
                let begun = std::time::Instant::now();
                let synced = handle.journal.sync();
                times.sync.observe(begun.elapsed());
                if let Err(error) = synced {
                    times.failures.inc();
                    handle.dirty.store(true, Ordering::Release);
                    tracing::error!(kernel = %handle.id(), %error, "cannot flush a kernel's log");
                    failed += 1;
                }
            }
            failed
        });
        match synced.await {
            Ok(0) => Ok(()),
            Ok(failed) => Err(format!("cannot flush the logs of {failed} kernels")),
            Err(error) => Err(error.to_string()),
        }
    }
}
