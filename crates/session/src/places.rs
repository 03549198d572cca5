//! Places for kernels: a limit for all, and limits of single tenants.

use std::collections::BTreeMap;
use std::sync::Arc;

use himalia_model::{EngineConfig, EngineError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    all: Limit,
    /// Of the tenants that have a limit of their own.
    tenants: BTreeMap<String, Limit>,
}

#[derive(Debug)]
struct Limit {
    most: u32,
    free: Arc<Semaphore>,
}

/// A kernel's place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_tenant: Option<OwnedSemaphorePermit>,
}

impl Limit {
    fn new(most: u32) -> Self {
        let places = usize::try_from(most).unwrap_or(usize::MAX);
        Self {
            most,
            free: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
        }
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }
}

impl Places {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let limit = |(name, limits): (&String, &himalia_model::TenantLimits)| {
            Some((name.clone(), Limit::new(limits.max_kernels?)))
        };
        Self {
            all: Limit::new(config.max_kernels),
            tenants: config.tenants.iter().filter_map(limit).collect(),
        }
    }

    /// A place for a kernel of this owner. [`EngineError::KernelLimit`], of the owner first.
    pub(crate) fn take(&self, owner: &str) -> Result<Place, EngineError> {
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
        Ok(Place {
            _of_all: Some(of_all),
            _of_tenant: of_tenant,
        })
    }

    /// The place of a kernel that is there already. More may be left over from another configuration than fit; they have none.
    pub(crate) fn adopt(&self, owner: &str) -> Place {
        Place {
            _of_all: self.all.take(),
            _of_tenant: self.tenants.get(owner).and_then(Limit::take),
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_model::TenantLimits;

    use super::*;

    fn places() -> Places {
        let mut config = EngineConfig::new("/nowhere");
        config.max_kernels = 3;
        let limits = TenantLimits {
            max_kernels: Some(1),
            ..TenantLimits::default()
        };
        config.tenants.insert("small".into(), limits);
        config.tenants.insert("free".into(), TenantLimits::default());
        Places::of(&config)
    }

    fn refused(places: &Places, owner: &str) -> String {
        places.take(owner).unwrap_err().to_string()
    }

    #[test]
    fn a_tenant_has_its_own_limit_below_that_of_all() {
        let places = places();
        let first = places.take("small").unwrap();
        assert_eq!(
            refused(&places, "small"),
            "the limit of 1 kernels of the tenant small is reached"
        );
        let others = [places.take("free").unwrap(), places.take("operator").unwrap()];
        assert_eq!(refused(&places, "free"), "the limit of 3 kernels is reached");
        drop(first);
        // What one limit gave is given back when the other refuses.
        let third = places.take("free").unwrap();
        assert_eq!(refused(&places, "small"), "the limit of 3 kernels is reached");
        drop(third);
        let again = places.take("small").unwrap();
        drop((others, again));
    }

    #[test]
    fn what_is_there_counts_though_it_does_not_fit() {
        let places = places();
        let kept: Vec<_> = (0..2).map(|_| places.adopt("small")).collect();
        assert!(places.take("small").is_err());
        drop(kept);
        assert!(places.take("small").is_ok());
    }
}
