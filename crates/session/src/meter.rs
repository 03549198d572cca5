//! Usage of owners and their callers: measured or counted here, added up in the store over all replicas.
//!
//! The processor time of a sandbox is what its provisioner says of it from outside, or else its shim, looked at while a kernel in it works.
//! It grows, so a look that is missed costs nothing, as long as a later one follows.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use himalia_budget::{Counted, DayAmounts};
use himalia_model::{EngineError, ExecutionState, ModelUse, Principal};
use himalia_sandbox::{MeasuredBy, Provisioner, SandboxId};
use himalia_store::UsageRecord;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{Lease, SessionManager};

/// Interval of measurements and of stored usage.
const EVERY: Duration = Duration::from_secs(10);
/// Time to wait for the sandboxes of a provisioner.
const MEASURE: Duration = Duration::from_secs(5);
/// Days that are kept in the store.
const KEPT_DAYS: i64 = 400;

/// Usage that is not stored yet, and the counted part of each sandbox's usage.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pending: Mutex<BTreeMap<(String, String), UsageRecord>>,
    /// Processor time of sandboxes that is counted, milliseconds.
    counted: Mutex<HashMap<SandboxId, u64>>,
    /// By owner.
    traffic: Mutex<HashMap<String, Arc<Traffic>>>,
    /// Held while what is pending is stored, so that what is read afterwards has all of it.
    storing: tokio::sync::Mutex<()>,
}

/// Bytes of the sandboxes of an owner that are not collected yet.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// So many more were carried.
    pub(crate) fn carried(&self, sent: u64, received: u64) {
        self.sent.fetch_add(sent, Ordering::Relaxed);
        self.received.fetch_add(received, Ordering::Relaxed);
    }
}

impl Meter {
    /// A native execution of this caller has ended, in a session of this owner.
    pub(crate) fn execution_ended(&self, owner: &str, caller: &str, took: Duration) {
        self.add(UsageRecord {
            owner: owner.to_owned(),
            caller: caller.to_owned(),
            cpu_ms: 0,
            executions: 1,
            execution_ms: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
            ..UsageRecord::default()
        });
    }

    /// Code or a model of this owner calls a tool.
    pub(crate) fn tool_called(&self, owner: &str) {
        self.add(UsageRecord {
            owner: owner.to_owned(),
            tool_calls: 1,
            ..UsageRecord::default()
        });
    }

    /// A call of a model by code of this owner has taken so much.
    pub(crate) fn model_called(&self, owner: &str, took: &ModelUse) {
        let amount = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.add(UsageRecord {
            owner: owner.to_owned(),
            model_input_tokens: amount(took.input_tokens),
            model_output_tokens: amount(took.output_tokens),
            model_spend_nanos: amount(took.spend.nanos()),
            ..UsageRecord::default()
        });
    }

    /// So many characters were returned to a caller.
    fn returned(&self, owner: &str, caller: &str, chars: u64) {
        self.add(UsageRecord {
            owner: owner.to_owned(),
            caller: caller.to_owned(),
            returned_chars: i64::try_from(chars).unwrap_or(i64::MAX),
            ..UsageRecord::default()
        });
    }

    /// Counts what sandboxes of an owner carry to and from the network.
    pub(crate) fn traffic(&self, owner: &str) -> Arc<Traffic> {
        let mut all = self.traffic.lock();
        Arc::clone(all.entry(owner.to_owned()).or_default())
    }

    /// Collects the network bytes since the last time.
    fn collect_traffic(&self) {
        let mut carried = Vec::new();
        self.traffic.lock().retain(|owner, traffic| {
            let (sent, received) = (
                traffic.sent.swap(0, Ordering::Relaxed),
                traffic.received.swap(0, Ordering::Relaxed),
            );
            if sent > 0 || received > 0 {
                carried.push(UsageRecord {
                    owner: owner.clone(),
                    network_sent_bytes: i64::try_from(sent).unwrap_or(i64::MAX),
                    network_received_bytes: i64::try_from(received).unwrap_or(i64::MAX),
                    ..UsageRecord::default()
                });
            }
            // A session has it.
            Arc::strong_count(traffic) > 1
        });
        for more in carried {
            self.add(more);
        }
    }

    fn add(&self, more: UsageRecord) {
        let key = (more.owner.clone(), more.caller.clone());
        match self.pending.lock().entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(more)),
            Entry::Occupied(mut entry) => {
                let sum = entry.get_mut();
                *sum = std::mem::take(sum).plus(&more);
            }
        }
    }

    /// A sandbox has used so much since it began. Of one that is `old`, what was used before the first look is counted already.
    fn measured(&self, owner: &str, sandbox: SandboxId, cpu_ms: u64, old: bool) {
        let mut counted = self.counted.lock();
        let before = counted.entry(sandbox).or_insert(if old { cpu_ms } else { 0 });
        // Less than before: processes have ended whose time went with them.
        let more = cpu_ms.saturating_sub(*before);
        *before = cpu_ms;
        drop(counted);
        if more > 0 {
            self.add(UsageRecord {
                owner: owner.to_owned(),
                cpu_ms: i64::try_from(more).unwrap_or(i64::MAX),
                ..UsageRecord::default()
            });
        }
    }

    /// Forgets sandboxes that are not there any more.
    fn keep(&self, there: &HashSet<SandboxId>) {
        self.counted.lock().retain(|id, _| there.contains(id));
    }

    fn take(&self) -> Vec<UsageRecord> {
        std::mem::take(&mut *self.pending.lock()).into_values().collect()
    }
}

impl SessionManager {
    /// Measures and stores what is used, until the engine stops.
    pub(crate) async fn keep_metered(self: Arc<Self>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut forgotten) = (0, 0);
        loop {
            tokio::select! {
                () = self.draining.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let since = std::mem::replace(&mut last, self.time().micros());
            self.measure_cpu(since).await;
            self.store_usage().await;
            let today = self.budget.today();
            if forgotten != today {
                forgotten = today;
                if let Err(error) = self.store.forget_usage(today - KEPT_DAYS).await {
                    tracing::warn!(%error, "cannot forget old usage");
                }
            }
        }
    }

    /// Looks at the sandboxes in which something happened since then, microseconds since 1970, at all of a provisioner at once.
    async fn measure_cpu(&self, since: u64) {
        let mut there = HashSet::new();
        let mut due: HashMap<SandboxId, (Arc<Lease>, String, bool)> = HashMap::new();
        let opened = u64::try_from(self.started.unix_timestamp_nanos() / 1000).unwrap_or(0);
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
        self.meter.keep(&there);
        let mut by_provisioner: Vec<(&Arc<dyn Provisioner>, Vec<SandboxId>)> = Vec::new();
        for (id, (lease, owner, old)) in &due {
            if lease.provisioner().capabilities().measured_by == MeasuredBy::Shim {
                if let Some(usage) = lease.reported() {
                    self.meter.measured(owner, *id, usage.cpu_millis, *old);
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
                    self.meter.measured(owner, id, usage.cpu_millis, *old);
                }
            }
        }
    }

    /// Adds what was used to the store, and reads what all replicas have added.
    pub(crate) async fn store_usage(&self) {
        let _storing = self.meter.storing.lock().await;
        let today = self.budget.today();
        self.meter.collect_traffic();
        let used = self.meter.take();
        let mut stored = DayAmounts::new();
        if !used.is_empty() {
            match self.store.add_usage(today, used.clone()).await {
                Ok(()) => stored = amounts(&used),
                Err(error) => {
                    tracing::warn!(%error, "cannot store what was used; it is tried again");
                    for more in used {
                        self.meter.add(more);
                    }
                }
            }
        }
        match self.store.usage(today).await {
            Ok(rows) => self.note_usage(today, &rows, &stored),
            Err(error) => tracing::warn!(%error, "cannot read what was used"),
        }
    }

    /// Checks that characters may be returned to a principal today.
    ///
    /// # Errors
    /// [`EngineError::QuotaExceeded`].
    pub fn may_return(&self, principal: &Principal) -> Result<(), EngineError> {
        if let Some(gate) = self.budget.day(principal.owner(), Counted::ReturnedChars) {
            gate.hold(0)?.settle(0);
        }
        Ok(())
    }

    /// So many characters were returned to a principal.
    pub fn returned(&self, principal: &Principal, chars: u64) {
        if let Some(gate) = self.budget.day(principal.owner(), Counted::ReturnedChars) {
            gate.count(chars);
        }
        self.meter.returned(principal.owner(), principal.name(), chars);
    }

    /// Usage of today, over all replicas, by owner and caller.
    pub async fn usage_today(&self) -> Result<Vec<UsageRecord>, EngineError> {
        self.store_usage().await;
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
fn amounts(rows: &[UsageRecord]) -> DayAmounts {
    let mut all = DayAmounts::new();
    for row in rows {
        for what in Counted::ALL {
            let amount = match what {
                Counted::ToolCalls => row.tool_calls,
                Counted::ModelTokens => row.model_input_tokens.saturating_add(row.model_output_tokens),
                Counted::ModelSpend => row.model_spend_nanos,
                Counted::ReturnedChars => row.returned_chars,
            };
            let sum = all.entry((row.owner.clone(), what)).or_default();
            *sum += u64::try_from(amount).unwrap_or(0);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use himalia_model::Spend;

    use super::*;

    #[test]
    fn what_a_sandbox_used_is_counted_once() {
        let (meter, id) = (Meter::default(), SandboxId::generate().unwrap());
        let other = SandboxId::generate().unwrap();
        for (cpu, old) in [
            (100, false),
            (100, false),
            (250, false),
            (200, false),
            (230, false),
        ] {
            meter.measured("acme", id, cpu, old);
        }
        // Of one that an earlier gateway counted, only what comes.
        meter.measured("acme", other, 1000, true);
        meter.measured("acme", other, 1007, true);
        let rows = meter.take();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].owner.as_str(), rows[0].cpu_ms), ("acme", 250 + 30 + 7));
        assert!(meter.take().is_empty());
        meter.keep(&HashSet::from([other]));
        assert_eq!(meter.counted.lock().len(), 1);
    }

    #[test]
    fn what_sandboxes_carry_is_collected_once() {
        let meter = Meter::default();
        let (one, other) = (meter.traffic("acme"), meter.traffic("acme"));
        one.carried(5, 0);
        other.carried(0, 7);
        for expected in [vec![(5, 7)], vec![]] {
            meter.collect_traffic();
            let rows = meter.take();
            let carried: Vec<_> = rows
                .iter()
                .map(|row| (row.network_sent_bytes, row.network_received_bytes))
                .collect();
            assert_eq!(carried, expected);
        }
        drop((one, other));
        meter.collect_traffic();
        assert!(meter.traffic.lock().is_empty());
    }

    #[test]
    fn calls_tokens_and_characters_add_up_by_owner() {
        let meter = Meter::default();
        let took = ModelUse {
            input_tokens: 3,
            output_tokens: 4,
            spend: Spend::of_nanos(9),
            ..ModelUse::default()
        };
        for owner in ["acme", "acme", "other"] {
            meter.tool_called(owner);
            meter.model_called(owner, &took);
        }
        meter.returned("acme", "acme/ada", 5);
        meter.returned("acme", "acme/bob", 6);
        let rows = meter.take();
        let all = amounts(&rows);
        let of = |owner: &str| Counted::ALL.map(|what| all[&(owner.to_owned(), what)]);
        assert_eq!(of("acme"), [2, 14, 18, 11]);
        assert_eq!(of("other"), [1, 7, 9, 0]);
    }

    #[test]
    fn executions_count_for_their_callers() {
        let meter = Meter::default();
        for caller in ["acme/ada", "acme/bob", "acme/ada"] {
            meter.execution_ended("acme", caller, Duration::from_millis(5));
        }
        let rows = meter.take();
        let counts: Vec<_> = rows
            .iter()
            .map(|row| (row.caller.as_str(), row.executions, row.execution_ms))
            .collect();
        assert_eq!(counts, [("acme/ada", 2, 10), ("acme/bob", 1, 5)]);
        // What could not be stored is not lost.
        for row in rows {
            meter.add(row);
        }
        meter.execution_ended("acme", "acme/bob", Duration::ZERO);
        assert_eq!(meter.take()[1].executions, 2);
    }
}
