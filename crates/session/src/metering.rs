//! Usage of owners and their callers: measured or counted here, added up in the store over all replicas.
//!
//! The processor time of a sandbox is what its provisioner says of it from outside, or else its shim, looked at while a kernel in it works.
//! It grows, so a look that is missed costs nothing, as long as a later one follows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use himalia_budget::{DailyQuantity, DayAmounts};
use himalia_model::{EngineError, ExecutionState, Principal};
use himalia_provisioner::{MeasuredBy, Provisioner, SandboxId};
use himalia_store::{UsageRecord, UsageStore};
use tokio::time::timeout;

use crate::periodic::{PeriodicTask, Wake};
use crate::{Lease, SessionManager};

/// Interval of measurements and of stored usage.
const EVERY: Duration = Duration::from_secs(10);
/// Time to wait for the sandboxes of a provisioner.
const MEASURE: Duration = Duration::from_secs(5);
/// Days that are kept in the store.
const KEPT_DAYS: i64 = 400;

/// Measures and stores usage.
#[derive(Default)]
pub(crate) struct UsageMeter {
    /// Time of the run before, in microseconds since 1970.
    last: u64,
    /// Day on which old usage was removed from the store.
    forgotten: i64,
}

impl UsageMeter {
    /// Starts the task.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        manager.spawn_periodic(EVERY, Self::default());
    }
}

impl PeriodicTask for UsageMeter {
    const NAME: &'static str = "meter";

    async fn run(&mut self, manager: &Arc<SessionManager>, _: Wake) -> Result<(), String> {
        let since = std::mem::replace(&mut self.last, manager.time().micros());
        manager.measure_cpu(since).await;
        let stored = manager.store_usage().await;
        let forgotten = self.forget(&*manager.store, manager.budget.today()).await;
        all_of([stored, forgotten])
    }
}

impl UsageMeter {
    /// Removes old usage from the store, once a day.
    async fn forget(&mut self, store: &(impl UsageStore + ?Sized), today: i64) -> Result<(), String> {
        if self.forgotten == today {
            return Ok(());
        }
        let forgotten = store.forget_usage(today - KEPT_DAYS).await;
        forgotten.map_err(|error| format!("cannot remove old usage: {error}"))?;
        self.forgotten = today;
        Ok(())
    }
}

/// The errors of all results in one.
fn all_of<const N: usize>(results: [Result<(), String>; N]) -> Result<(), String> {
    let errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("; "))
    }
}

impl SessionManager {
    /// Looks at the sandboxes in which something happened since then, microseconds since 1970, at all of a provisioner at once.
    async fn measure_cpu(&self, since: u64) {
        let mut there = HashSet::new();
        let mut due: HashMap<SandboxId, (Arc<Lease>, String, bool)> = HashMap::new();
        let opened = self.times.started_micros();
        for handle in self.registry.all_unordered() {
            if handle.is_over() || handle.is_lost() {
                continue;
            }
            let lease = handle.lease();
            there.insert(lease.id());
            let busy = handle.snapshot.borrow().state == ExecutionState::Busy;
            // What a shim has reported costs nothing to read, and may be later than what it is about.
            let reported = lease.provisioner().capabilities().measured_by == MeasuredBy::Shim;
            if busy || reported || handle.last_activity.load(Ordering::Relaxed) >= since {
                let session = handle.session();
                let old = session.created_micros < opened;
                due.entry(lease.id())
                    .or_insert((lease, session.owner.clone(), old));
            }
        }
        self.usage.meter.keep(&there);
        let mut by_provisioner: Vec<(&Arc<dyn Provisioner>, Vec<SandboxId>)> = Vec::new();
        for (id, (lease, owner, old)) in &due {
            if lease.provisioner().capabilities().measured_by == MeasuredBy::Shim {
                if let Some(usage) = lease.reported() {
                    self.usage.meter.measured(owner, *id, usage.cpu_millis, *old);
                }
                continue;
            }
            let its = Arc::as_ptr(lease.provisioner());
            match by_provisioner
                .iter_mut()
                .find(|(one, _)| std::ptr::addr_eq(Arc::as_ptr(one), its))
            {
                Some((_, ids)) => ids.push(*id),
                None => by_provisioner.push((lease.provisioner(), vec![*id])),
            }
        }
        for (provisioner, ids) in by_provisioner {
            let measured = tokio::select! {
                biased;
                () = self.draining.cancelled() => return,
                measured = timeout(MEASURE, provisioner.usage(ids)) => measured,
            };
            let Ok(Ok(measured)) = measured else { continue };
            for (id, usage) in measured {
                if let Some((_, owner, old)) = due.get(&id) {
                    self.usage.meter.measured(owner, id, usage.cpu_millis, *old);
                }
            }
        }
    }

    /// Adds what was used to the store, and reads what all replicas have added. Usage that cannot be stored is kept for the next call.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn store_usage(&self) -> Result<(), String> {
        let _storing = self.usage.meter.storing.lock().await;
        let today = self.budget.today();
        self.usage.meter.collect_traffic();
        let used = self.usage.meter.take();
        let mut stored = DayAmounts::new();
        let mut added = Ok(());
        if !used.is_empty() {
            match self.store.add_usage(today, used.clone()).await {
                Ok(()) => stored = amounts(&used),
                Err(error) => {
                    added = Err(format!("cannot store usage: {error}"));
                    for more in used {
                        self.usage.meter.add(more);
                    }
                }
            }
        }
        let read = match self.store.usage(today).await {
            Ok(rows) => {
                self.note_usage(today, &rows, &stored);
                Ok(())
            }
            Err(error) => Err(format!("cannot read usage: {error}")),
        };
        all_of([added, read])
    }

    /// Checks that characters may be returned to a principal today.
    ///
    /// # Errors
    /// [`EngineError::QuotaExceeded`].
    pub fn may_return(&self, principal: &Principal) -> Result<(), EngineError> {
        if let Some(gate) = self.budget.day(principal.owner(), DailyQuantity::ReturnedChars) {
            gate.hold(0)?.settle(0);
        }
        Ok(())
    }

    /// So many characters were returned to a principal.
    pub fn returned(&self, principal: &Principal, chars: u64) {
        if let Some(gate) = self.budget.day(principal.owner(), DailyQuantity::ReturnedChars) {
            gate.count(chars);
        }
        self.usage
            .meter
            .returned(principal.owner(), principal.name(), chars);
    }

    /// Usage of today, over all replicas, by owner and caller.
    pub async fn usage_today(&self) -> Result<Vec<UsageRecord>, EngineError> {
        if let Err(error) = self.store_usage().await {
            tracing::warn!(error, "the usage of today is incomplete");
        }
        let rows = self.store.usage(self.budget.today()).await;
        rows.map_err(|error| EngineError::internal("reading what was used", error))
    }

    fn note_usage(&self, day: i64, rows: &[UsageRecord], stored: &DayAmounts) {
        let mut by_owner: BTreeMap<String, Duration> = BTreeMap::new();
        let mut carried: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows {
            let millis = u64::try_from(row.cpu_ms).unwrap_or(0);
            *by_owner.entry(row.owner.clone()).or_default() += Duration::from_millis(millis);
            let bytes = row.network_sent_bytes.saturating_add(row.network_received_bytes);
            *carried.entry(row.owner.clone()).or_default() += u64::try_from(bytes).unwrap_or(0);
        }
        self.budget.set_cpu(day, &by_owner);
        self.budget.set_traffic(day, &carried);
        self.budget.set_days(day, &amounts(rows), stored);
    }
}

/// Amounts in these rows with a daily quota.
pub(crate) fn amounts(rows: &[UsageRecord]) -> DayAmounts {
    let mut all = DayAmounts::new();
    for row in rows {
        for what in DailyQuantity::ALL {
            let amount = match what {
                DailyQuantity::ToolCalls => row.tool_calls,
                DailyQuantity::ModelTokens => row.model_input_tokens.saturating_add(row.model_output_tokens),
                DailyQuantity::ModelSpend => row.model_spend_nanos,
                DailyQuantity::ReturnedChars => row.returned_chars,
            };
            let sum = all.entry((row.owner.clone(), what)).or_default();
            *sum += u64::try_from(amount).unwrap_or(0);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use himalia_store::{StoreError, StoreFuture};
    use parking_lot::Mutex;

    use super::*;

    /// Fails as often as it was given, and notes the days before which it forgets.
    #[derive(Debug, Default)]
    struct FailingStore {
        failures: Mutex<u32>,
        forgotten: Mutex<Vec<i64>>,
    }

    impl UsageStore for FailingStore {
        fn add_usage(&self, _: i64, _: Vec<UsageRecord>) -> StoreFuture<'_, ()> {
            Box::pin(async { Ok(()) })
        }

        fn usage(&self, _: i64) -> StoreFuture<'_, Vec<UsageRecord>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn forget_usage(&self, day: i64) -> StoreFuture<'_, usize> {
            Box::pin(async move {
                let mut failures = self.failures.lock();
                if *failures > 0 {
                    *failures -= 1;
                    return Err(StoreError::LeaseLost);
                }
                self.forgotten.lock().push(day);
                Ok(1)
            })
        }
    }

    #[tokio::test]
    async fn old_usage_is_removed_again_after_a_failure_and_then_once_a_day() {
        let store = FailingStore {
            failures: Mutex::new(2),
            ..FailingStore::default()
        };
        let mut meter = UsageMeter::default();
        for day in [500, 500] {
            assert!(meter.forget(&store, day).await.is_err());
        }
        for day in [500, 500, 501] {
            assert_eq!(meter.forget(&store, day).await, Ok(()));
        }
        assert_eq!(*store.forgotten.lock(), [500 - KEPT_DAYS, 501 - KEPT_DAYS]);
    }

    #[test]
    fn no_error_hides_another() {
        let error = |text: &str| Err(text.to_owned());
        assert_eq!(all_of([Ok(()), Ok(())]), Ok(()));
        assert_eq!(all_of([Ok(()), error("b")]), error("b"));
        assert_eq!(all_of([error("a"), error("b")]), error("a; b"));
    }
}
