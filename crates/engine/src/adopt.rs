//! Taking over the kernels that an earlier gateway left.
//!
//! All logs are read and all sockets opened at once; then the shims call. A sandbox that is gone, or whose shim does not
//! call in time, leaves a dead kernel.

use std::sync::Arc;

use himalia_sandbox::{SandboxError, SandboxHandle, SandboxId};
use himalia_store::{KernelLife, KernelRecord};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::inner::{Inner, Member};
use crate::kernel::{Core, Effect, Event, Facts, remove_forgotten_logs};
use crate::start::cull_timeout;
use crate::{EngineError, KernelId};

impl Inner {
    /// Takes over every kernel of the store. Returns when all of them are listed; their shims call a little later.
    pub(crate) async fn adopt(self: &Arc<Self>) -> Result<(), EngineError> {
        let rows = self.store.kernels().await;
        let rows = rows.map_err(|error| EngineError::internal("cannot read the list of kernels", error))?;
        let logs = self.config.data_dir.join("kernels");
        let swept = tokio::task::spawn_blocking(move || remove_forgotten_logs(&logs)).await;
        swept.map_err(|error| EngineError::internal("cannot sweep logs", error))?;
        let keep: Vec<SandboxId> = rows
            .iter()
            .filter_map(|row| row.sandbox_id.parse().ok())
            .collect();
        let mut adoptions = JoinSet::new();
        for row in rows {
            let inner = Arc::clone(self);
            adoptions.spawn(async move {
                let id = KernelId(row.id);
                if let Err(error) = inner.adopt_one(row).await {
                    tracing::error!(kernel = %id, %error, "cannot take over a kernel");
                }
            });
        }
        adoptions.join_all().await;
        match self.provisioner.sweep(keep).await {
            Ok(swept) if swept.is_empty() => {}
            Ok(swept) => tracing::warn!(
                sandboxes = swept.len(),
                "ended sandboxes that no kernel belongs to"
            ),
            Err(error) => tracing::error!(%error, "cannot sweep sandboxes"),
        }
        Ok(())
    }

    async fn adopt_one(self: &Arc<Self>, row: KernelRecord) -> Result<(), EngineError> {
        let id = KernelId(row.id);
        let reservation = self.registry.reserve(id)?;
        let sandbox_id: SandboxId = row
            .sandbox_id
            .parse()
            .map_err(|error| EngineError::internal("a kernel's row names no sandbox", error))?;
        let sandbox = if row.life == KernelLife::Dead {
            None
        } else {
            self.adopt_sandbox(sandbox_id).await
        };
        let (inner, dir) = (Arc::clone(self), row.session_dir.clone());
        let (settings, now) = (self.settings(), self.now());
        let read = tokio::task::spawn_blocking(move || {
            let (journal, recovery) = inner.open_log(&dir)?;
            let by_number = |seq: u64| match journal.cursor(seq.saturating_sub(1)).read(1, 1) {
                Ok(himalia_journal::Read::Records(records)) => {
                    records.into_iter().next().filter(|record| record.seq == seq)
                }
                _ => None,
            };
            let checkpoint = recovery.checkpoint.as_deref();
            let core = Core::recover(settings, now, checkpoint, &recovery.since, by_number)
                .map_err(|error| EngineError::internal("cannot understand a kernel's log", error))?;
            Ok::<_, EngineError>((journal, core))
        });
        let (journal, mut core) = read
            .await
            .map_err(|error| EngineError::internal("reading a log", error))??;
        if sandbox.is_none() {
            let cause = row
                .dead_cause
                .clone()
                .unwrap_or_else(|| "sandbox_lost".to_owned());
            core.step(Event::SandboxGone(cause), now, &mut Vec::<Effect>::new());
        }
        let spec = self.catalog.get(&row.kernelspec).await.ok();
        let member = Member {
            facts: Facts {
                id,
                name: row.kernelspec,
                created_micros: u64::try_from(row.created_micros).unwrap_or(0),
                cull_timeout: spec.as_ref().and_then(cull_timeout),
            },
            core,
            journal,
            sandbox_id,
            key_hash: row.sandbox_key_hash,
            // More kernels than places may be left over from another configuration.
            permit: sandbox
                .as_ref()
                .and_then(|_| Arc::clone(&self.places).try_acquire_owned().ok()),
            adoption_deadline: sandbox
                .as_ref()
                .map(|_| Instant::now() + self.config.adoption_grace),
            sandbox,
        };
        reservation.fill(self.spawn(member)?);
        Ok(())
    }

    async fn adopt_sandbox(&self, id: SandboxId) -> Option<SandboxHandle> {
        match self.provisioner.adopt(id).await {
            Ok(sandbox) => Some(sandbox),
            Err(SandboxError::NotFound(_)) => None,
            Err(error) => {
                tracing::error!(sandbox = %id, %error, "cannot take over a sandbox");
                None
            }
        }
    }
}
