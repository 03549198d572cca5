//! Taking over the kernels that an earlier gateway left, or another replica.
//!
//! All logs are read and all sockets opened at once; then the shims call. A sandbox that is gone, or whose shim does not
//! call in time, leaves a dead kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_kernel::{Core, record};
use himalia_lease::GIVEN_UP;
use himalia_model::{EngineError, KernelId};
use himalia_provisioner::{SandboxError, SandboxId};
use himalia_store::KernelLife;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::actor::NewActor;
use super::plan::cull_timeout;
use super::take_overs::Adoptable;
use crate::end::remove_unknown_logs;
use crate::record::{place_of, session_of};
use crate::sandbox_lease::Share;
use crate::{Lease, SessionManager};

/// Reason for the death of a kernel whose sandbox no longer exists, or cannot be reached.
fn lost_with(had: Option<&str>, now: &str) -> String {
    match had {
        Some(had) => {
            format!("sandbox_lost: replica {had} is gone, and replica {now} does not reach its sandbox")
        }
        None => "sandbox_lost".to_owned(),
    }
}

impl SessionManager {
    /// Takes over every kernel of the store that no living replica has. Returns when all of them are listed; their shims call a little later.
    pub(crate) async fn adopt(self: &Arc<Self>) -> Result<(), EngineError> {
        let rows = self.store.take_kernels().await;
        let rows =
            rows.map_err(|error| EngineError::internal("cannot take over the list of kernels", error))?;
        let (store, logs) = (self.logs.storage(), self.config.data_dir.join("kernels"));
        let kept = self.ended.kept();
        let known = rows
            .iter()
            .map(|row| &row.paths.session_dir)
            .chain(kept.iter().map(|row| &row.session_dir))
            .filter_map(|dir| dir.strip_prefix("kernels/"))
            .map(str::to_owned)
            .collect();
        let swept = tokio::task::spawn_blocking(move || {
            store.remove_forgotten("kernels");
            remove_unknown_logs(&logs, &known);
        })
        .await;
        swept.map_err(|error| EngineError::internal("cannot sweep logs", error))?;
        if let Some(shared) = &self.logs.shared {
            let removed = shared.remove_orphans().await;
            removed
                .map_err(|error| EngineError::internal("cannot look for logs that no kernel has", error))?;
        }
        let adoptable = rows.into_iter().map(|row| Adoptable { row, had: None }).collect();
        let failed = self.adopt_all(adoptable, self.replica.link_epoch()).await;
        self.replica.take_overs.try_again(failed);
        self.end_without_session().await;
        self.sweep_at_start().await
    }

    /// Takes over kernels whose rows this replica has. Gives back those of which it was not possible now.
    pub(super) async fn adopt_all(self: &Arc<Self>, all: Vec<Adoptable>, epoch: u64) -> Vec<Adoptable> {
        let mut sandboxes: BTreeMap<String, Vec<Adoptable>> = BTreeMap::new();
        for one in all {
            let sandbox = one.row.paths.sandbox_id.clone();
            sandboxes.entry(sandbox).or_default().push(one);
        }
        let mut adoptions = JoinSet::new();
        for rows in sandboxes.into_values() {
            let inner = Arc::clone(self);
            adoptions.spawn(async move { inner.adopt_sandbox(rows, epoch).await });
        }
        adoptions.join_all().await.into_iter().flatten().collect()
    }

    /// Takes over the kernels of one sandbox.
    async fn adopt_sandbox(self: &Arc<Self>, rows: Vec<Adoptable>, epoch: u64) -> Vec<Adoptable> {
        let first = match self.find_sandbox(&rows, epoch).await {
            Ok(first) => first,
            Err(error) => {
                tracing::error!(%error, "cannot take over a sandbox");
                return rows;
            }
        };
        let lease = Arc::clone(first.lease());
        // All shares are taken before one can be given back.
        let mut shares: Vec<Share> = rows.iter().skip(1).filter_map(|_| lease.join()).collect();
        shares.push(first);
        let mut failed = Vec::new();
        for (one, share) in rows.into_iter().zip(shares) {
            if let Err(error) = self.adopt_one(one.clone(), share).await {
                tracing::error!(kernel = %KernelId(one.row.id), %error, "cannot take over a kernel");
                failed.push(one);
            }
        }
        failed
    }

    async fn find_sandbox(&self, rows: &[Adoptable], epoch: u64) -> Result<Share, EngineError> {
        let row = rows
            .first()
            .map(|one| &one.row)
            .ok_or_else(|| EngineError::unavailable("no kernel is in it"))?;
        let id: SandboxId = row
            .paths
            .sandbox_id
            .parse()
            .map_err(|error| EngineError::internal("a kernel's row names no sandbox", error))?;
        // Another kernel in it was taken over before.
        let all = self.registry.all_unordered();
        let mut beside = all.iter().map(|handle| handle.lease());
        if let Some(share) = beside.find_map(|lease| lease.join().filter(|_| lease.id() == id)) {
            return Ok(share);
        }
        let session = session_of(row)?;
        let (kind, level) = (&*session.provisioner, session.sandbox.isolation);
        let there = self.provisioners.maker_at(place_of(row), kind, level).await;
        let there = there.map_err(|error| EngineError::internal("cannot look at a sandbox", error))?;
        // What cannot be reached is lost; what is left of it is removed, if it is here.
        let maker = there.or_else(|| self.provisioners.maker(kind, level).cloned());
        if maker.is_none() {
            tracing::error!(sandbox = %id, kind = session.provisioner, "the provisioner of a sandbox is not configured any more");
        }
        let lives = rows.iter().any(|one| one.row.life != KernelLife::Dead);
        let sandbox = match maker.as_ref().filter(|_| lives) {
            Some(maker) => match maker.adopt(id).await {
                Ok(sandbox) => Some(sandbox),
                Err(SandboxError::NotFound(_)) => None,
                Err(error) => {
                    tracing::error!(sandbox = %id, %error, "cannot take over a sandbox");
                    None
                }
            },
            None => None,
        };
        let provisioner = maker
            .or_else(|| self.provisioners.first().cloned())
            .ok_or_else(|| EngineError::unavailable("no provisioner is configured"))?;
        let first = Lease::first(
            provisioner,
            id,
            sandbox,
            row.paths.sandbox_key_hash,
            epoch,
            place_of(row).map(str::to_owned),
        );
        self.registry.add_sandbox(first.lease());
        Ok(first)
    }

    async fn adopt_one(self: &Arc<Self>, one: Adoptable, share: Share) -> Result<(), EngineError> {
        let Adoptable { row, had } = one;
        let id = KernelId(row.id);
        let reservation = self.registry.reserve(id)?;
        let lives = share.lease().sandbox().is_some() && row.life != KernelLife::Dead;
        let session = session_of(&row)?;
        let spec = self.catalog.get(&session.kernelspec).await.ok();
        let cull_timeout = spec.as_ref().and_then(cull_timeout);

        let permit = (lives || session.outlives_sandbox())
            .then(|| self.starts.limits.adopt(&session.owner, session.tree.as_ref()));
        let rules = self.rules(session.origin, &session.sandbox);
        let limits = session.sandbox.limits.clone();
        let (inner, dir) = (Arc::clone(self), row.paths.session_dir.clone());
        let (settings, now) = (self.settings(share.lease().epoch()), self.now());
        let read = tokio::task::spawn_blocking(move || {
            let (journal, recovery) = inner.logs.open(&dir, &limits)?;
            let by_number = |seq: u64| record(&journal, seq);
            let checkpoint = recovery.checkpoint.as_deref();
            let core = Core::recover(settings, now, checkpoint, &recovery.since, by_number)
                .map_err(|error| EngineError::internal("cannot understand a kernel's log", error))?;
            Ok::<_, EngineError>((journal, core))
        });
        let (journal, mut core) = read
            .await
            .map_err(|error| EngineError::internal("reading a log", error))??;
        core.set_rules(rules);
        if !lives {
            let cause = row
                .dead_cause
                .clone()
                .unwrap_or_else(|| lost_with(had.as_deref(), self.store.replica()));
            core.sandbox_lost(cause, now);
        }
        // A process that was paused would take the socket away from the replica that has the kernel now.
        if !self.store.lease().is_valid() {
            return Err(EngineError::unavailable("this gateway may not act any more"));
        }
        // The shim calls when it notices that the replica is gone to which it is connected.
        let grace = match &had {
            Some(_) => self.config.adoption_grace.max(GIVEN_UP),
            None => self.config.adoption_grace,
        };
        let link = if lives {
            Some(self.listen(share.lease(), &row.paths.socket)?)
        } else {
            None
        };
        let actor = NewActor {
            id,
            session,
            cull_timeout,
            core,
            journal,
            share,
            socket: row.paths.socket,
            link,
            permit,
            adoption_deadline: lives.then(|| Instant::now() + grace),
        };
        reservation.fill(self.spawn(actor));
        Ok(())
    }
}
