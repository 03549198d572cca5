//! Usage of owners and their callers that is counted here and not stored yet.

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use himalia_model::ModelUse;
use himalia_provisioner::SandboxId;
use himalia_store::UsageRecord;
use parking_lot::Mutex;

use crate::disk::Rooms;

/// Usage that is not stored yet, and the counted part of each sandbox's usage.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pending: Mutex<BTreeMap<(String, String), UsageRecord>>,
    /// Processor time of sandboxes that is counted, milliseconds.
    counted: Mutex<HashMap<SandboxId, u64>>,
    /// By owner.
    traffic: Mutex<HashMap<String, Arc<Traffic>>>,
    /// Held while what is pending is stored, so that what is read afterwards has all of it.
    pub(crate) storing: tokio::sync::Mutex<()>,
}

/// Usage that is not stored, and room for bytes that are about to be written.
#[derive(Debug, Default)]
pub(crate) struct PendingUsage {
    pub(crate) meter: Arc<Meter>,
    pub(crate) rooms: Arc<Rooms>,
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
    pub(crate) fn returned(&self, owner: &str, caller: &str, chars: u64) {
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
    pub(crate) fn collect_traffic(&self) {
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

    pub(crate) fn add(&self, more: UsageRecord) {
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
    pub(crate) fn measured(&self, owner: &str, sandbox: SandboxId, cpu_ms: u64, old: bool) {
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
    pub(crate) fn keep(&self, there: &HashSet<SandboxId>) {
        self.counted.lock().retain(|id, _| there.contains(id));
    }

    pub(crate) fn take(&self) -> Vec<UsageRecord> {
        std::mem::take(&mut *self.pending.lock()).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use himalia_budget::DailyQuantity;
    use himalia_model::Spend;

    use super::*;
    use crate::metering::amounts;

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
        let of = |owner: &str| DailyQuantity::ALL.map(|what| all[&(owner.to_owned(), what)]);
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
