//! Holding a kernel that waits for a start that will come, perhaps from another replica.

use himalia_model::{EngineError, HeldKernel, Origin, Principal};
use himalia_store::ReadyReplica;

use super::Pool;
use crate::SessionManager;

impl SessionManager {
    /// The template of this name whose pool a start would be served from; `None` if it has no pool.
    pub async fn pooled_template(&self, name: Option<&str>, origin: Origin) -> Option<String> {
        let pools = self.pools().filter(|pools| !pools.is_empty())?;
        let chosen = self.templates.choose(&self.catalog, name, origin).await.ok()?;
        pools.contains_key(&chosen.name).then_some(chosen.name)
    }

    /// Holds a kernel of a template's pool for one start of the principal, for a few seconds; `None` if none is ready, or this gateway
    /// would not start one for the principal.
    pub async fn hold_kernel(&self, principal: &Principal, template: &str) -> Option<HeldKernel> {
        self.check_open().ok()?;
        self.starts.limits.take(principal.owner()).ok()?;
        let member = self.pool(template)?.hold().await?;
        Some(HeldKernel {
            template: template.to_owned(),
            member,
        })
    }

    /// Releases a held kernel, if it was not claimed.
    pub fn release_held(&self, held: &HeldKernel) {
        if let Some(pool) = self.pool(&held.template) {
            pool.release(held.member);
        }
    }

    /// Replicas other than this one with ready kernels of a template's pool, at most `most`.
    pub async fn ready_elsewhere(&self, template: &str, most: u32) -> Result<Vec<ReadyReplica>, EngineError> {
        let found = self.store.ready_elsewhere(template.to_owned(), most).await;
        found.map_err(|error| {
            tracing::warn!(%error, "cannot find out which replicas have kernels ready");
            EngineError::unavailable("the database does not answer")
        })
    }

    fn pool(&self, template: &str) -> Option<&Pool> {
        self.pools()?.get(template)
    }
}
