//! Checks the quotas of an owner before one more session of it is started.

use himalia_model::{EngineError, Principal};

use crate::SessionManager;

impl SessionManager {
    /// Checks that one more session of the principal may be started, or one be given another sandbox unless it is `new`:
    /// [`EngineError::QuotaExceeded`], [`EngineError::KernelLimit`] of all replicas together, [`EngineError::DiskFull`] and
    /// [`EngineError::OverBudget`] for the disk.
    pub async fn check_quotas(&self, principal: &Principal, new: bool) -> Result<(), EngineError> {
        let owner = principal.owner();
        if let Some(cpu) = self.budget.cpu(owner) {
            cpu.check()?;
        }
        let limits = self.config.tenants.get(owner);
        if let Some(most) = limits.and_then(|limits| limits.max_kernels)
            && self.store.is_shared()
        {
            let there = self.kernels_of(owner).await?;
            // One that is given another sandbox counts already.
            if there + usize::from(new) > usize::try_from(most).unwrap_or(usize::MAX) {
                return Err(EngineError::KernelLimit {
                    limit: most,
                    tenant: Some(owner.to_owned()),
                });
            }
        }
        if let Some(limit) = limits.and_then(|limits| limits.sandbox_memory_bytes) {
            let used = self.memory_of(owner).await;
            if used >= limit {
                return Err(EngineError::QuotaExceeded {
                    quota: "sandbox_memory",
                    owner: owner.to_owned(),
                    limit,
                    used,
                    unit: "bytes",
                    until: None,
                    retry_after: 10,
                });
            }
        }
        self.check_disk(principal).await
    }

    /// Kernels of an owner, of all replicas.
    pub async fn kernels_of(&self, owner: &str) -> Result<usize, EngineError> {
        let count = self.store.count_kernels(owner.to_owned()).await;
        count.map_err(|error| EngineError::internal("counting kernels", error))
    }

    /// Bytes of memory that the sandboxes of an owner use, as far as that is known.
    pub async fn memory_of(&self, owner: &str) -> u64 {
        let all = self.registry.all_unordered().into_iter();
        let own = all.filter(|handle| handle.session().owner == owner && !handle.is_over());
        let leases: Vec<_> = own.map(|handle| handle.lease()).collect();
        self.memory.read(&leases).await.into_values().sum()
    }
}
