//! Processor time of tenants within a day. It is measured elsewhere; here it is compared with what there may be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::{Clock, EngineError, from_micros};
use parking_lot::Mutex;

const DAY_MICROS: i64 = 86_400_000_000;

/// The day of a time: days since 1970, UTC.
pub fn day_of(micros: i64) -> i64 {
    micros.div_euclid(DAY_MICROS)
}

/// When a day begins, microseconds since 1970.
pub fn begin_of(day: i64) -> i64 {
    day.saturating_mul(DAY_MICROS)
}

/// The tenants that have a limit.
#[derive(Debug)]
pub(super) struct CpuQuotas {
    clock: Clock,
    tenants: BTreeMap<String, CpuGate>,
}

/// Quota of a tenant's processor time per day. Clones name the same.
#[derive(Clone, Debug)]
pub struct CpuGate(Arc<Tenant>);

#[derive(Debug)]
struct Tenant {
    owner: String,
    limit: Duration,
    clock: Clock,
    /// Day, and processor time used on it.
    used: Mutex<(i64, Duration)>,
}

impl CpuQuotas {
    pub(super) fn new<'a>(clock: &Clock, limits: impl Iterator<Item = (&'a String, Duration)>) -> Self {
        let tenant = |(owner, limit): (&String, Duration)| {
            let tenant = Tenant {
                owner: owner.clone(),
                limit,
                clock: clock.clone(),
                used: Mutex::default(),
            };
            (owner.clone(), CpuGate(Arc::new(tenant)))
        };
        Self {
            clock: clock.clone(),
            tenants: limits.map(tenant).collect(),
        }
    }

    pub(super) fn of(&self, owner: &str) -> Option<&CpuGate> {
        self.tenants.get(owner)
    }

    /// The day now.
    pub(super) fn today(&self) -> i64 {
        day_of(self.clock.stored_micros())
    }

    /// Sets the usage of a day by owner. Owners without an entry have used nothing.
    pub(super) fn set(&self, day: i64, used: &BTreeMap<String, Duration>) {
        for (owner, gate) in &self.tenants {
            *gate.0.used.lock() = (day, used.get(owner).copied().unwrap_or_default());
        }
    }
}

impl CpuGate {
    /// [`EngineError::QuotaExceeded`] when nothing is left of the day.
    pub fn check(&self) -> Result<(), EngineError> {
        let tenant = &*self.0;
        let now = tenant.clock.stored_micros();
        let today = day_of(now);
        let (day, used) = *tenant.used.lock();
        if day != today || used < tenant.limit {
            return Ok(());
        }
        let ends = begin_of(today + 1);
        let left = u64::try_from(ends.saturating_sub(now)).unwrap_or(0);
        Err(EngineError::QuotaExceeded {
            quota: "cpu_seconds_per_day",
            owner: tenant.owner.clone(),
            limit: tenant.limit.as_secs(),
            used: used.as_secs(),
            unit: "seconds",
            until: Some(from_micros(u64::try_from(ends).unwrap_or(0))),
            retry_after: left.div_ceil(1_000_000).max(1),
        })
    }

    /// Processor time per day.
    pub fn limit(&self) -> Duration {
        self.0.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_comes_back_with_the_next_day() {
        let clock = Clock::default();
        let today = day_of(clock.stored_micros());
        let quotas = CpuQuotas::new(&clock, [(&"acme".to_owned(), Duration::from_mins(1))].into_iter());
        assert!(quotas.of("other").is_none());
        let gate = quotas.of("acme").unwrap().clone();
        gate.check().unwrap();
        let used = |seconds| BTreeMap::from([("acme".to_owned(), Duration::from_secs(seconds))]);
        quotas.set(today, &used(59));
        gate.check().unwrap();
        quotas.set(today, &used(61));
        let error = gate.check().unwrap_err();
        assert_eq!(
            (error.code(), error.is_limit(), error.retryable()),
            ("quota_exceeded", true, true)
        );
        let text = error.to_string();
        let begins = "the quota cpu_seconds_per_day of the tenant acme is exhausted: 61 of 60 seconds are used; it is possible again at 2";
        assert!(
            text.starts_with(begins) && text.ends_with("T00:00:00.000000Z"),
            "{text}"
        );
        let EngineError::QuotaExceeded {
            until, retry_after, ..
        } = error
        else {
            panic!("{error}");
        };
        assert!(retry_after <= 86_400 && until.is_some());
        quotas.set(today - 1, &used(61));
        gate.check().unwrap();
        quotas.set(today, &BTreeMap::new());
        gate.check().unwrap();
    }

    #[test]
    fn days_are_those_of_utc() {
        assert_eq!(
            (day_of(0), day_of(DAY_MICROS - 1), day_of(DAY_MICROS), day_of(-1)),
            (0, 0, 1, -1)
        );
        assert_eq!(begin_of(3), 3 * DAY_MICROS);
    }
}
