//! How many kernels may run or be starting: a limit for all, and limits of single tenants.

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_model::{EngineConfig, EngineError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All limits.
#[derive(Debug)]
pub(crate) struct KernelLimits {
    all: Limit,
    /// Of the tenants that have a limit of their own.
    tenants: BTreeMap<String, Limit>,
}

#[derive(Debug)]
struct Limit {
    most: u32,
    free: Arc<Semaphore>,
}

/// A kernel's permit to run; another kernel may have it once this is dropped.
#[derive(Debug)]
pub(crate) struct KernelPermit {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_tenant: Option<OwnedSemaphorePermit>,
}

impl Limit {
    fn new(most: u32) -> Self {
        let permits = usize::try_from(most).unwrap_or(usize::MAX);
        Self {
            most,
            free: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
        }
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }
}

impl KernelLimits {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let limit = |(name, tenant): (&String, &himalia_model::TenantLimits)| {
            Some((name.clone(), Limit::new(tenant.max_kernels?)))
        };
        Self {
            all: Limit::new(config.max_kernels),
            tenants: config.tenants.iter().filter_map(limit).collect(),
        }
    }

    /// A permit for a kernel of this owner. [`EngineError::KernelLimit`], of the owner first.
    pub(crate) fn take(&self, owner: &str) -> Result<KernelPermit, EngineError> {
        let over = |limit: &Limit, tenant: Option<&str>| EngineError::KernelLimit {
            limit: limit.most,
            tenant: tenant.map(str::to_owned),
        };
        let own = self.tenants.get(owner);
        let of_tenant = match own.map(|limit| limit.take().ok_or_else(|| over(limit, Some(owner)))) {
            None => None,
            Some(taken) => Some(taken?),
        };
        let of_all = self.all.take().ok_or_else(|| over(&self.all, None))?;
        Ok(KernelPermit {
            _of_all: Some(of_all),
            _of_tenant: of_tenant,
        })
    }

    /// The permit of a kernel that exists already. There may be more kernels than an earlier configuration allowed; those beyond
    /// the limit have none.
    pub(crate) fn adopt(&self, owner: &str) -> KernelPermit {
        KernelPermit {
            _of_all: self.all.take(),
            _of_tenant: self.tenants.get(owner).and_then(Limit::take),
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_model::TenantLimits;

    use super::*;

    fn limits() -> KernelLimits {
        let mut config = EngineConfig::new("/nowhere");
        config.max_kernels = 3;
        let limits = TenantLimits {
            max_kernels: Some(1),
            ..TenantLimits::default()
        };
        config.tenants.insert("small".into(), limits);
        config.tenants.insert("free".into(), TenantLimits::default());
        KernelLimits::of(&config)
    }

    fn refused(limits: &KernelLimits, owner: &str) -> String {
        limits.take(owner).unwrap_err().to_string()
    }

    #[test]
    fn a_tenant_has_its_own_limit_below_that_of_all() {
        let limits = limits();
        let first = limits.take("small").unwrap();
        assert_eq!(
            refused(&limits, "small"),
            "the limit of 1 kernels of the tenant small is reached"
        );
        let others = [limits.take("free").unwrap(), limits.take("operator").unwrap()];
        assert_eq!(refused(&limits, "free"), "the limit of 3 kernels is reached");
        drop(first);
        // What one limit gave is given back when the other refuses.
        let third = limits.take("free").unwrap();
        assert_eq!(refused(&limits, "small"), "the limit of 3 kernels is reached");
        drop(third);
        let again = limits.take("small").unwrap();
        drop((others, again));
    }

    #[test]
    fn what_is_there_counts_though_it_does_not_fit() {
        let limits = limits();
        let kept: Vec<_> = (0..2).map(|_| limits.adopt("small")).collect();
        assert!(limits.take("small").is_err());
        drop(kept);
        assert!(limits.take("small").is_ok());
    }
}
