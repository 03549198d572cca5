//! Limits of running and starting kernels: a limit for all, limits of single tenants, and limits of trees of sessions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use himalia_model::{EngineConfig, EngineError, SessionId, Starter, ToolError, ToolErrorCode, TreePlace};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct KernelLimits {
    all: Limit,
    /// Limits of tenants that have one of their own.
    tenants: BTreeMap<String, Limit>,
    trees: Arc<Trees>,
}

/// By the session at the top: sessions below it.
#[derive(Debug, Default)]
struct Trees(Mutex<HashMap<SessionId, u32>>);

/// A session's place among those of its tree.
#[derive(Debug)]
struct InTree {
    root: SessionId,
    trees: Arc<Trees>,
}

impl Trees {
    fn take(self: &Arc<Self>, root: SessionId, most: u32) -> Option<InTree> {
        let mut all = self.0.lock();
        let count = all.get(&root).copied().unwrap_or(0);
        (count < most).then(|| {
            all.insert(root, count + 1);
            InTree {
                root,
                trees: Arc::clone(self),
            }
        })
    }
}

impl Drop for InTree {
    fn drop(&mut self) {
        let mut all = self.trees.0.lock();
        match all.get_mut(&self.root) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                all.remove(&self.root);
            }
        }
    }
}

#[derive(Debug)]
struct Limit {
    most: u32,
    free: Arc<Semaphore>,
}

/// A kernel's permit to run; another kernel may have it once this is dropped.
#[derive(Debug)]
pub(crate) struct KernelPermit {
    _all: Option<OwnedSemaphorePermit>,
    _tenant: Option<OwnedSemaphorePermit>,
    _tree: Option<InTree>,
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
            trees: Arc::default(),
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
            _all: Some(of_all),
            _tenant: of_tenant,
            _tree: None,
        })
    }

    /// The same for the first kernel of a session that code of another session starts, if there is a place for it in its tree. A tree that
    /// has grown as far as it may: [`ToolErrorCode::Limit`].
    pub(crate) fn take_below(
        &self,
        owner: &str,
        starter: Option<&Starter>,
    ) -> Result<KernelPermit, EngineError> {
        let over = |message: String, hint: &str| {
            Err(EngineError::tool(
                ToolError::new(ToolErrorCode::Limit, message).with_hint(hint),
            ))
        };
        let of_tree = match starter {
            None => None,
            Some(Starter { place, limits, .. }) => {
                if place.depth > limits.depth {
                    return over(
                        format!(
                            "no session was started: {} are below each other, as deep as they may be (tree_depth)",
                            limits.depth
                        ),
                        "Do it in this session.",
                    );
                }
                let taken = self.trees.take(place.root, limits.sessions);
                if taken.is_none() {
                    return over(
                        format!(
                            "no session was started: {} of this tree live, as many as may (tree_sessions)",
                            limits.sessions
                        ),
                        "Wait until some of them have ended.",
                    );
                }
                taken
            }
        };
        Ok(KernelPermit {
            _tree: of_tree,
            ..self.take(owner)?
        })
    }

    /// The permit of a kernel that exists already. There may be more kernels than an earlier configuration allowed; those beyond
    /// the limit have none.
    pub(crate) fn adopt(&self, owner: &str, tree: Option<&TreePlace>) -> KernelPermit {
        KernelPermit {
            _all: self.all.take(),
            _tenant: self.tenants.get(owner).and_then(Limit::take),
            _tree: tree.and_then(|place| self.trees.take(place.root, u32::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_model::{Session, TenantLimits, TreeLimits};

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
    fn a_tree_has_a_depth_and_a_number_of_sessions() {
        let limits = KernelLimits::of(&EngineConfig::new("/nowhere"));
        let root = SessionId::random();
        let session = Session {
            tree_limits: TreeLimits {
                depth: 2,
                sessions: 3,
            },
            ..Session::default()
        };
        let first = Starter::new(root, &session, None);
        let below = Session {
            tree: Some(first.place),
            ..session.clone()
        };
        let second = Starter::new(SessionId::random(), &below, None);
        let third = Starter {
            place: TreePlace {
                depth: 3,
                ..second.place
            },
            ..second.clone()
        };
        let take = |starter: &Starter| {
            limits
                .take_below("a", Some(starter))
                .map_err(|error| error.to_string())
        };
        let kept = limits.adopt("a", Some(&first.place));
        let taken = [take(&first).unwrap(), take(&second).unwrap()];
        assert!(take(&first).unwrap_err().contains("3 of this tree live"));
        // Another tree is another number.
        assert!(take(&Starter::new(SessionId::random(), &session, None)).is_ok());
        drop(taken);
        assert!(take(&third).unwrap_err().contains("tree_depth"));
        assert!(take(&second).is_ok());
        drop(kept);
        assert!(limits.trees.0.lock().is_empty());
    }

    #[test]
    fn what_is_there_counts_though_it_does_not_fit() {
        let limits = limits();
        let kept: Vec<_> = (0..2).map(|_| limits.adopt("small", None)).collect();
        assert!(limits.take("small").is_err());
        drop(kept);
        assert!(limits.take("small").is_ok());
    }
}
