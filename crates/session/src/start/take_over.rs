//! Taking over what a replica had whose lease has ended.
//!
//! The crate `lease` decides what is taken, and when ([`TakeOverPlan`]). One statement takes the kernels of a few sandboxes; they are
//! adopted before the next few are taken.

use std::collections::HashSet;
use std::sync::Arc;

use himalia_lease::{AGAIN, EVERY, TakeOverPlan};
use himalia_store::{DeadReplica, TakeOver, Taken};
use tokio::time::Instant;

use super::take_overs::Adoptable;
use crate::SessionManager;
use crate::periodic::{PeriodicTask, Wake};

/// Takes over what dead replicas had.
pub(crate) struct TakingOver {
    plan: TakeOverPlan,
    start: Instant,
    /// Time at which kernels that could not be adopted are tried again.
    retry_at: Instant,
}

impl TakingOver {
    /// Starts the task.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        let start = Instant::now();
        let task = Self {
            plan: TakeOverPlan::default(),
            start,
            retry_at: start + AGAIN,
        };
        manager.spawn_periodic(EVERY, task);
    }
}

impl PeriodicTask for TakingOver {
    const NAME: &'static str = "take_over";

    async fn run(&mut self, manager: &Arc<SessionManager>, _: Wake) -> Result<(), String> {
        let take_overs = &manager.replica.take_overs;
        if take_overs.has_failed() && Instant::now() >= self.retry_at {
            take_overs.begin();
            let failed = take_overs.take_failed();
            manager.adopt_taken(failed).await;
            take_overs.end();
            self.retry_at = Instant::now() + AGAIN;
        }
        let dead = manager.store.dead_replicas().await;
        let dead = dead.map_err(|error| format!("cannot look for dead replicas: {error}"))?;
        let reached = manager.reached(&dead).await;
        let live = manager.live(&dead).await;
        if let Some(what) = self.plan.look(&dead, live, reached, self.start.elapsed()) {
            manager.take_over(&mut self.plan, what, self.start).await;
        }
        Ok(())
    }
}

impl SessionManager {
    /// Number of live replicas, this one among them.
    async fn live(&self, dead: &[DeadReplica]) -> u32 {
        if dead.is_empty() {
            return 1;
        }
        let all = self.store.replicas().await;
        all.map_or(1, |all| u32::try_from(all.len()).unwrap_or(u32::MAX))
    }

    /// The places of dead replicas that can be reached from here.
    async fn reached(self: &Arc<Self>, dead: &[DeadReplica]) -> Vec<String> {
        let mut places: Vec<String> = dead.iter().flat_map(|one| one.places.clone()).collect();
        if places.is_empty() {
            return places;
        }
        places.sort();
        places.dedup();
        let inner = Arc::clone(self);
        let reached = tokio::task::spawn_blocking(move || {
            places.retain(|place| inner.provisioners.reaches(place));
            places
        });
        reached.await.unwrap_or_default()
    }

    /// Takes a few at a time, until there is nothing left for this replica.
    async fn take_over(self: &Arc<Self>, plan: &mut TakeOverPlan, mut what: TakeOver, start: Instant) {
        while !self.draining.is_cancelled() {
            what.most = plan.allowed(start.elapsed());
            if what.most == 0 {
                return;
            }
            self.replica.take_overs.begin();
            let taken = self.store.take_over(what.clone()).await;
            let more = match taken {
                Ok(taken) => {
                    let more = plan.took(sandboxes(&taken), taken.is_empty(), start.elapsed());
                    self.took(taken).await;
                    more
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take over what another replica had");
                    plan.failed(start.elapsed());
                    false
                }
            };
            self.replica.take_overs.end();
            if !more {
                return;
            }
        }
    }

    /// These are this replica's now.
    async fn took(self: &Arc<Self>, taken: Taken) {
        let Taken {
            kernels,
            epoch,
            ended,
            orphans,
        } = taken;
        tracing::info!(
            kernels = kernels.len(),
            ended = ended.len(),
            "taking over what another replica had"
        );
        self.metrics.replicas().taken_over.inc_by(kernels.len() as u64);
        self.replica.raise_link_epoch(epoch);
        self.ended.add(ended);
        if let Some(shared) = &self.logs.shared {
            for name in &orphans {
                shared.forget(name);
            }
        }
        let all = kernels
            .into_iter()
            .map(|(row, had)| Adoptable { row, had: Some(had) });
        self.adopt_taken(all.collect()).await;
    }

    /// Adopts what this replica has taken, and then the Jupyter sessions of these kernels: one whose kernel is not there would be
    /// forgotten.
    async fn adopt_taken(self: &Arc<Self>, all: Vec<Adoptable>) {
        if all.is_empty() {
            return;
        }
        let mut ids: Vec<uuid::Uuid> = all.iter().map(|one| one.row.id).collect();
        let failed = self.adopt_all(all, self.replica.link_epoch()).await;
        ids.retain(|id| failed.iter().all(|one| one.row.id != *id));
        if failed.is_empty() {
            self.end_without_session().await;
        }
        self.replica.take_overs.try_again(failed);
        if let Err(error) = self.store.take_jupyter_sessions(ids).await {
            tracing::error!(%error, "cannot take over the Jupyter sessions of kernels");
        }
    }
}

/// Number of sandboxes that the kernels are in.
fn sandboxes(taken: &Taken) -> u32 {
    let all: HashSet<&str> = taken
        .kernels
        .iter()
        .map(|(row, _)| &*row.paths.sandbox_id)
        .collect();
    u32::try_from(all.len()).unwrap_or(u32::MAX)
}
