//! Taking over the kernels that an earlier gateway left.
//!
//! All logs are read and all sockets opened at once; then the shims call. A sandbox that is gone, or whose shim does not
//! call in time, leaves a dead kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_kernel::{Core, record};
use himalia_model::{EngineError, KernelId};
use himalia_sandbox::{SandboxError, SandboxId};
use himalia_store::{KernelLife, KernelRecord};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::actor::NewActor;
use super::plan::cull_timeout;
use crate::end::remove_unknown_logs;
use crate::record::session_of;
use crate::sandbox_lease::Share;
use crate::{Lease, SessionManager};

impl SessionManager {
    /// Takes over every kernel of the store that no living replica has. Returns when all of them are listed; their shims call a little later.
    pub(crate) async fn adopt(self: &Arc<Self>) -> Result<(), EngineError> {
        let rows = self.store.take_kernels().await;
        let rows =
            rows.map_err(|error| EngineError::internal("cannot take over the list of kernels", error))?;
        let (store, logs) = (self.logs(), self.config.data_dir.join("kernels"));
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
        if let Some(shared) = &self.shared_logs {
            let removed = shared.remove_orphans().await;
            removed
                .map_err(|error| EngineError::internal("cannot look for logs that no kernel has", error))?;
        }
        let mut sandboxes: BTreeMap<String, Vec<KernelRecord>> = BTreeMap::new();
        for row in rows {
            sandboxes
                .entry(row.paths.sandbox_id.clone())
                .or_default()
                .push(row);
        }
        let mut adoptions = JoinSet::new();
        for rows in sandboxes.into_values() {
            let inner = Arc::clone(self);
            adoptions.spawn(async move { inner.adopt_sandbox(rows).await });
        }
        adoptions.join_all().await;
        self.end_without_session().await;
        self.sweep_at_start().await
    }

    /// Takes over the kernels of one sandbox.
    async fn adopt_sandbox(self: &Arc<Self>, rows: Vec<KernelRecord>) {
        let first = match self.find_sandbox(&rows).await {
            Ok(first) => first,
            Err(error) => {
                tracing::error!(%error, "cannot take over a sandbox");
                return;
            }
        };
        let lease = Arc::clone(first.lease());
        // All shares are taken before one can be given back.
        let mut shares: Vec<Share> = rows.iter().skip(1).filter_map(|_| lease.join()).collect();
        shares.push(first);
        for (row, share) in rows.into_iter().zip(shares) {
            let id = KernelId(row.id);
            if let Err(error) = self.adopt_one(row, share).await {
                tracing::error!(kernel = %id, %error, "cannot take over a kernel");
            }
        }
    }

    async fn find_sandbox(&self, rows: &[KernelRecord]) -> Result<Share, EngineError> {
        let row = rows
            .first()
            .ok_or_else(|| EngineError::unavailable("no kernel is in it"))?;
        let id: SandboxId = row
            .paths
            .sandbox_id
            .parse()
            .map_err(|error| EngineError::internal("a kernel's row names no sandbox", error))?;
        let session = session_of(row)?;
        let maker = self
            .provisioners
            .maker(&session.provisioner, session.sandbox.isolation);
        if maker.is_none() {
            tracing::error!(sandbox = %id, kind = session.provisioner, "the provisioner of a sandbox is not configured any more");
        }
        let lives = rows.iter().any(|row| row.life != KernelLife::Dead);
        let sandbox = match maker.filter(|_| lives) {
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
            .or_else(|| self.provisioners.first())
            .ok_or_else(|| EngineError::unavailable("no provisioner is configured"))?;
        let first = Lease::first(
            Arc::clone(provisioner),
            id,
            sandbox,
            row.paths.sandbox_key_hash,
            self.store.epoch(),
        );
        Ok(self.lease(first))
    }

    async fn adopt_one(self: &Arc<Self>, row: KernelRecord, share: Share) -> Result<(), EngineError> {
        let id = KernelId(row.id);
        let reservation = self.registry.reserve(id)?;
        let lives = share.lease().sandbox().is_some() && row.life != KernelLife::Dead;
        let session = session_of(&row)?;
        let spec = self.catalog.get(&session.kernelspec).await.ok();
        let cull_timeout = spec.as_ref().and_then(cull_timeout);

        let permit = (lives || session.outlives_sandbox()).then(|| self.kernel_limits.adopt(&session.owner));
        let rules = self.rules(session.origin, &session.sandbox);
        let limits = session.sandbox.limits.clone();
        let (inner, dir) = (Arc::clone(self), row.paths.session_dir.clone());
        let (settings, now) = (self.settings(), self.now());
        let read = tokio::task::spawn_blocking(move || {
            let (journal, recovery) = inner.open_log(&dir, &limits)?;
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
                .unwrap_or_else(|| "sandbox_lost".to_owned());
            core.sandbox_lost(cause, now);
        }
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
            adoption_deadline: lives.then(|| Instant::now() + self.config.adoption_grace),
        };
        reservation.fill(self.spawn(actor));
        Ok(())
    }
}
