//! The memory that sandboxes use, as lists show it: each sandbox is measured rarely, and all that are due at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use himalia_provisioner::{MeasuredBy, Provisioner, SandboxId};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::Lease;

/// Largest age of a measurement that is shown.
const FRESH: Duration = Duration::from_secs(5);
/// When one that was not asked for again is forgotten.
const FORGET: Duration = Duration::from_mins(1);
/// Time that a list waits for measurements; then it shows the known ones.
const WAIT: Duration = Duration::from_secs(2);

/// The latest measurement of each sandbox that was asked for lately.
#[derive(Debug)]
pub struct MemoryGauge {
    known: Mutex<HashMap<SandboxId, Measurement>>,
    /// One measures, the others find what it found.
    turn: Semaphore,
}

#[derive(Debug)]
struct Measurement {
    asked: Instant,
    bytes: Option<u64>,
}

/// Sandboxes of one provisioner that are to be measured.
type DueSandboxes = (Arc<dyn Provisioner>, Vec<SandboxId>);

impl Default for MemoryGauge {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            turn: Semaphore::new(1),
        }
    }
}

impl MemoryGauge {
    /// Bytes that these sandboxes use; those whose use is unknown are left out.
    pub async fn read(&self, leases: &[Arc<Lease>]) -> HashMap<SandboxId, u64> {
        let by_provisioner =
            |lease: &&Arc<Lease>| lease.provisioner().capabilities().measured_by == MeasuredBy::Provisioner;
        let measured = leases.iter().filter(by_provisioner);
        let measured = measured.map(|lease| (lease.id(), lease.provisioner()));
        let _ = timeout(WAIT, self.measure(measured, Instant::now())).await;
        let known = self.known.lock();
        let bytes = |lease: &Arc<Lease>| match known.get(&lease.id()) {
            Some(measurement) => measurement.bytes,
            None => lease.reported().map(|usage| usage.rss_bytes),
        };
        let found = leases
            .iter()
            .filter_map(|lease| Some((lease.id(), bytes(lease)?)));
        found.collect()
    }

    async fn measure<'a>(
        &self,
        sandboxes: impl Iterator<Item = (SandboxId, &'a Arc<dyn Provisioner>)>,
        now: Instant,
    ) {
        let Ok(_turn) = self.turn.acquire().await else {
            return;
        };
        for (provisioner, ids) in self.due(sandboxes, now) {
            match provisioner.memory(ids.clone()).await {
                Ok(mut found) => self.note(&ids, |id| found.remove(&id)),
                Err(error) => tracing::debug!(%error, "cannot measure the memory of sandboxes"),
            }
        }
    }

    /// Sandboxes whose measurement is too old. They count as asked for from now on, so that a provisioner that does not answer is not asked by every
    /// caller.
    fn due<'a>(
        &self,
        sandboxes: impl Iterator<Item = (SandboxId, &'a Arc<dyn Provisioner>)>,
        now: Instant,
    ) -> Vec<DueSandboxes> {
        let mut known = self.known.lock();
        known.retain(|_, measurement| now < measurement.asked + FORGET);
        let mut due: Vec<DueSandboxes> = Vec::new();
        for (id, provisioner) in sandboxes {
            match known.entry(id) {
                Entry::Occupied(entry) if now < entry.get().asked + FRESH => continue,
                Entry::Occupied(mut entry) => entry.get_mut().asked = now,
                Entry::Vacant(entry) => {
                    let bytes = None;
                    entry.insert(Measurement { asked: now, bytes });
                }
            }
            let is_its = |(maker, _): &&mut DueSandboxes| {
                std::ptr::addr_eq(Arc::as_ptr(maker), Arc::as_ptr(provisioner))
            };
            match due.iter_mut().find(is_its) {
                Some((_, ids)) => ids.push(id),
                None => due.push((Arc::clone(provisioner), vec![id])),
            }
        }
        due
    }

    fn note(&self, ids: &[SandboxId], mut bytes: impl FnMut(SandboxId) -> Option<u64>) {
        let mut known = self.known.lock();
        for id in ids {
            if let Some(measurement) = known.get_mut(id) {
                measurement.bytes = bytes(*id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use himalia_provisioner::Isolation;

    use super::*;
    use crate::testing::StubProvisioner;

    fn stub(bytes: Option<u64>) -> (Arc<StubProvisioner>, Arc<dyn Provisioner>) {
        let stub = Arc::new(StubProvisioner::new(Isolation::None).measuring(bytes));
        (Arc::clone(&stub), stub)
    }

    fn bytes(gauge: &MemoryGauge, id: SandboxId) -> Option<u64> {
        gauge.known.lock().get(&id)?.bytes
    }

    #[tokio::test]
    async fn each_sandbox_is_measured_rarely_and_all_that_are_due_at_once() {
        let gauge = MemoryGauge::default();
        let (local, made_local) = stub(Some(7));
        let (other, made_other) = stub(None);
        let [a, b, c] = [(); 3].map(|()| SandboxId::generate().unwrap());
        let mut now = Instant::now();
        for _ in 0..10 {
            let asked = [
                (a, &made_local),
                (b, &made_local),
                (a, &made_local),
                (c, &made_other),
            ];
            gauge.measure(asked.into_iter(), now).await;
        }
        assert_eq!((local.measured(), other.measured()), (vec![2], vec![1]));
        assert_eq!(
            (bytes(&gauge, a), bytes(&gauge, b), bytes(&gauge, c)),
            (Some(7), Some(7), None)
        );

        now += FRESH;
        let d = SandboxId::generate().unwrap();
        gauge.measure([(a, &made_local)].into_iter(), now).await;
        let asked = [(a, &made_local), (d, &made_local)];
        gauge.measure(asked.into_iter(), now).await;
        assert_eq!(local.measured(), [2, 1, 1]);

        now += FORGET;
        gauge.measure(std::iter::empty(), now).await;
        assert!(gauge.known.lock().is_empty());
    }
}
