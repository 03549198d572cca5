//! Bytes of sandboxes to and from the network within a day. They are counted elsewhere too; here they are compared with what there
//! may be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use himalia_model::Clock;

use crate::cpu::day_of;

/// The tenants that have a limit.
#[derive(Debug)]
pub(super) struct TrafficQuotas {
    tenants: BTreeMap<String, TrafficGate>,
}

/// Quota of a tenant's network bytes per day. Clones name the same.
#[derive(Clone, Debug)]
pub struct TrafficGate(Arc<Tenant>);

#[derive(Debug)]
struct Tenant {
    owner: String,
    limit: u64,
    clock: Clock,
    /// Day of the usage over all replicas.
    day: AtomicI64,
    known: AtomicU64,
    /// Carried here since that was known.
    since: AtomicU64,
}

impl TrafficQuotas {
    pub(super) fn new<'a>(clock: &Clock, limits: impl Iterator<Item = (&'a String, u64)>) -> Self {
        let tenant = |(owner, limit): (&String, u64)| {
            let tenant = Tenant {
                owner: owner.clone(),
                limit,
                clock: clock.clone(),
                day: AtomicI64::new(0),
                known: AtomicU64::new(0),
                since: AtomicU64::new(0),
            };
            (owner.clone(), TrafficGate(Arc::new(tenant)))
        };
        Self {
            tenants: limits.map(tenant).collect(),
        }
    }

    pub(super) fn of(&self, owner: &str) -> Option<&TrafficGate> {
        self.tenants.get(owner)
    }

    /// Sets the bytes of a day by owner. Owners without an entry have carried nothing.
    pub(super) fn set(&self, day: i64, used: &BTreeMap<String, u64>) {
        for (owner, gate) in &self.tenants {
            let tenant = &*gate.0;
            tenant
                .known
                .store(used.get(owner).copied().unwrap_or_default(), Ordering::Relaxed);
            tenant.since.store(0, Ordering::Relaxed);
            tenant.day.store(day, Ordering::Relaxed);
        }
    }
}

impl TrafficGate {
    /// So many more bytes were carried.
    ///
    /// # Errors
    /// Which bound is reached.
    pub fn carried(&self, bytes: u64) -> Result<(), String> {
        let tenant = &*self.0;
        let since = tenant
            .since
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        let today = tenant.day.load(Ordering::Relaxed) == day_of(tenant.clock.stored_micros());
        let known = if today {
            tenant.known.load(Ordering::Relaxed)
        } else {
            0
        };
        if known.saturating_add(since) < tenant.limit {
            return Ok(());
        }
        let (owner, limit) = (&tenant.owner, tenant.limit);
        Err(format!(
            "the limit of {limit} bytes a day of the tenant {owner} is reached (network_per_day)"
        ))
    }

    /// Bytes per day.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_replicas_have_carried_counts_and_a_day_ends() {
        let clock = Clock::default();
        let today = day_of(clock.stored_micros());
        let quotas = TrafficQuotas::new(&clock, [(&"acme".to_owned(), 100)].into_iter());
        assert!(quotas.of("other").is_none());
        let gate = quotas.of("acme").unwrap().clone();
        gate.carried(40).unwrap();
        let used = |bytes| BTreeMap::from([("acme".to_owned(), bytes)]);
        quotas.set(today, &used(90));
        gate.carried(9).unwrap();
        assert!(
            gate.carried(1)
                .unwrap_err()
                .contains("100 bytes a day of the tenant acme")
        );
        assert!(gate.carried(0).is_err());
        quotas.set(today - 1, &used(1000));
        gate.carried(0).unwrap();
    }
}
