//! Rate limits: a token bucket for each tenant.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use himalia_model::{EngineError, Principal};
use parking_lot::Mutex;

/// Seconds of its rate that a tenant may save.
const BURST: u64 = 4;

/// The rates of all tenants. The operator has none.
#[derive(Debug)]
pub(super) struct Rates {
    what: &'static str,
    tenant: u64,
    own: BTreeMap<String, u64>,
    /// As many as there are tenants.
    buckets: Mutex<BTreeMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    /// When it would have been empty, had it only been filled since.
    empty_at: Instant,
    refused: u64,
}

impl Rates {
    /// A second, of a tenant; and of single tenants.
    pub(super) fn new(what: &'static str, (tenant, own): (u64, BTreeMap<String, u64>)) -> Self {
        Self {
            what,
            tenant,
            own,
            buckets: Mutex::default(),
        }
    }

    /// One more, now.
    pub(super) fn take(&self, principal: &Principal, now: Instant) -> Result<(), EngineError> {
        if principal.is_operator() {
            return Ok(());
        }
        let owner = principal.owner();
        let rate = self.own.get(owner).copied().unwrap_or(self.tenant).max(1);
        let each = Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX);
        let full = each.saturating_mul(u32::try_from(rate.saturating_mul(BURST)).unwrap_or(u32::MAX));
        let mut buckets = self.buckets.lock();
        let oldest = now.checked_sub(full).unwrap_or(now);
        let bucket = buckets.entry(owner.to_owned()).or_insert(Bucket {
            empty_at: oldest,
            refused: 0,
        });
        let next = bucket.empty_at.max(oldest) + each;
        if next > now {
            bucket.refused += 1;
            let wait = next.saturating_duration_since(now);
            return Err(EngineError::OverBudget {
                what: self.what,
                reason: format!(
                    "the limit of {rate} {} a second of the tenant {owner} is reached",
                    self.what
                ),
                gateways: false,
                retry_after: wait.as_secs() + 1,
            });
        }
        bucket.empty_at = next;
        Ok(())
    }

    /// Refusals by owner.
    pub(super) fn refused(&self) -> Vec<(String, u64)> {
        let buckets = self.buckets.lock();
        buckets
            .iter()
            .map(|(owner, bucket)| (owner.clone(), bucket.refused))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_so_many_a_second() {
        let rates = Rates::new("starts", (10, [("slow".to_owned(), 1)].into()));
        let (ada, eve) = (
            Principal::of_tenant("acme", "ada").unwrap(),
            Principal::of_tenant("slow", "eve").unwrap(),
        );
        let start = Instant::now() + Duration::from_mins(1);
        let taken = |who: &Principal, at: u64, tries: usize| {
            let now = start + Duration::from_millis(at);
            (0..tries).filter(|_| rates.take(who, now).is_ok()).count()
        };
        assert_eq!(taken(&ada, 0, 100), 40);
        assert_eq!(taken(&eve, 0, 100), 4);
        assert_eq!(taken(&ada, 1000, 100), 10);
        assert_eq!(taken(&eve, 999, 100), 0);
        assert_eq!(taken(&eve, 1000, 100), 1);
        // What is saved has an end.
        assert_eq!(taken(&ada, 60_000, 100), 40);
        assert_eq!(taken(&Principal::operator(), 0, 1000), 1000);
        let error = rates.take(&eve, start + Duration::from_secs(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the limit of 1 starts a second of the tenant slow is reached"
        );
    }
}
