//! What runs without being asked: flushing logs, ending idle kernels.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use himalia_kernel::Command;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::session_kernels::Sessions;
use crate::{SessionKernel, SessionManager, culling};

/// `cull_interval` when it is not set, as in `jupyter_server`.
const CULL_INTERVAL: Duration = Duration::from_mins(5);

impl SessionManager {
    /// Flushes logs that have grown, at the configured interval, until the engine stops.
    pub(crate) async fn keep_synced(self: Arc<Self>) {
        let mut ticks = interval(self.config.sync_interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop_actors.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.sync_logs().await;
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
        let synced = tokio::task::spawn_blocking(move || {
            for handle in dirty {
                if let Err(error) = handle.journal.sync() {
                    handle.dirty.store(true, Ordering::Release);
                    tracing::error!(kernel = %handle.id(), %error, "cannot flush a kernel's log");
                }
            }
        });
        if let Err(error) = synced.await {
            tracing::error!(%error, "flushing logs failed");
        }
    }

    /// Ends idle kernels, until the engine stops. Not started at all when culling is off.
    pub(crate) async fn keep_culling(self: Arc<Self>) {
        let cull = self.config.cull;
        let every = if cull.interval.is_zero() {
            CULL_INTERVAL
        } else {
            cull.interval
        };
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = self.time().looks();
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let Some(now) = looks.look() else { continue };
            let mut ends = JoinSet::new();
            let all = self.registry.all();
            let sessions = Sessions::of(&all);
            for handle in &all {
                let facts = sessions.cull_facts(handle);
                if facts.is_some_and(|facts| culling::due(&facts, &cull, now)) {
                    let handle = Arc::clone(handle);
                    tracing::info!(kernel = %handle.id(), "culling an idle kernel");
                    ends.spawn(async move {
                        handle.order(Command::Stop("idle_culled")).await;
                        handle.gone().await;
                    });
                }
            }
            ends.join_all().await;
        }
    }
}
