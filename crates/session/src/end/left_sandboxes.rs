//! Sandboxes that no session belongs to: what starts and pools have left that were under way when their gateway ended.
//!
//! A gateway that is alone looks for them when it starts. Replicas share the place where sandboxes are made, such as a
//! namespace of a cluster: each of them looks when it starts, when the lease of another one has ended, and now and then.
//! What a replica with a valid lease has made is its own, whether a row names it or not.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::EngineError;
use himalia_provisioner::{OrphanSandbox, SandboxId};
use himalia_store::{KernelRecord, Scope};
use tokio::time::Instant;

use super::{known_files, remove_unknown_files};
use crate::SessionManager;
use crate::periodic::{PeriodicTask, Wake};

/// Interval of checks which replicas live.
const LOOK: Duration = Duration::from_secs(5);
/// Interval of searches for sandboxes in any case.
const REGULARLY: Duration = Duration::from_mins(10);

/// Looks for sandboxes of replicas that are gone.
pub(crate) struct Sweep {
    /// Replicas that lived at the run before.
    before: HashSet<String>,
    /// Time of the next search in any case.
    due: Instant,
}

impl Sweep {
    /// Starts the task.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        let task = Self {
            before: HashSet::new(),
            due: Instant::now() + REGULARLY,
        };
        manager.spawn_periodic(LOOK, task);
    }
}

impl PeriodicTask for Sweep {
    const NAME: &'static str = "sweep";

    async fn run(&mut self, manager: &Arc<SessionManager>, _: Wake) -> Result<(), String> {
        let living = manager.other_living().await.map_err(|error| error.to_string())?;
        let living: HashSet<String> = living.into_iter().collect();
        let one_has_ended = !self.before.is_subset(&living);
        if one_has_ended || Instant::now() >= self.due {
            // After an error, the next run searches again.
            manager.end_strays().await.map_err(|error| error.to_string())?;
            self.due = Instant::now() + REGULARLY;
        }
        self.before = living;
        Ok(())
    }
}

impl SessionManager {
    /// Ends what earlier gateways left, and removes files that no session of any replica has. Only before the first kernel
    /// is started.
    pub(crate) async fn sweep_at_start(&self) -> Result<(), EngineError> {
        let rows = self.rows_of_all().await?;
        self.provisioners.sweep(&sandboxes(&rows)).await;
        self.end_strays().await?;
        remove_unknown_files(&self.provisioners, &known_files(&rows)).await;
        Ok(())
    }

    /// Ends the sandboxes that no session has and no living replica has made.
    async fn end_strays(&self) -> Result<(), EngineError> {
        if !self.store.is_shared() {
            return Ok(());
        }
        for one in self.provisioners.iter() {
            let strays = match one.strays().await {
                Ok(strays) => strays.unwrap_or_default(),
                Err(error) => {
                    tracing::error!(kind = %one.kind(), %error, "cannot look for sandboxes that no session has");
                    continue;
                }
            };
            if strays.is_empty() {
                continue;
            }
            // After the strays: who made one either lives now, or has ended and makes no more of them; and a session that came
            // to have one has a row.
            let living: HashSet<String> = self.other_living().await?.into_iter().collect();
            let known: HashSet<SandboxId> = sandboxes(&self.rows_of_all().await?).into_iter().collect();
            let lives =
                |stray: &OrphanSandbox| stray.maker.as_ref().is_some_and(|maker| living.contains(maker));
            let left = strays
                .iter()
                .filter(|stray| !known.contains(&stray.id) && !lives(stray));
            let left: Vec<SandboxId> = left.map(|stray| stray.id).collect();
            if !left.is_empty() {
                let removed = one.remove_strays(left).await;
                tracing::warn!(kind = %one.kind(), sandboxes = removed, "ended sandboxes that no session has");
            }
        }
        Ok(())
    }

    pub(super) async fn rows_of_all(&self) -> Result<Vec<KernelRecord>, EngineError> {
        let rows = self.store.kernels(Scope::All).await;
        rows.map_err(|error| EngineError::internal("cannot read the list of kernels", error))
    }

    /// The names of the other replicas whose lease is valid. Pools learn how many there are.
    async fn other_living(&self) -> Result<Vec<String>, EngineError> {
        if !self.store.is_shared() {
            return Ok(Vec::new());
        }
        let all = self.store.replicas().await;
        let all =
            all.map_err(|error| EngineError::internal("cannot find out which replicas there are", error))?;
        let others = all.into_iter().filter(|one| one.name != self.store.replica());
        let others: Vec<String> = others.map(|one| one.name).collect();
        let living = u32::try_from(others.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.replica
            .living
            .send_if_modified(|before| std::mem::replace(before, living) != living);
        Ok(others)
    }
}

fn sandboxes(rows: &[KernelRecord]) -> Vec<SandboxId> {
    let ids = rows.iter().filter_map(|row| row.paths.sandbox_id.parse().ok());
    ids.collect()
}
