//! A sandbox as the kernels in it share it: it ends with the last of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use himalia_kernel::MEMORY_WAIT;
use himalia_model::KernelId;
use himalia_provisioner::{MeasuredBy, Provisioner, SandboxError, SandboxHandle, SandboxId, Usage};
use himalia_shim_protocol::Stats;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::{MAX_PROCESSES, MAX_TRANSFERS};

/// Interval of checks if memory was the cause of a death.
const MEMORY_LOOK: Duration = Duration::from_millis(40);
/// Numbers of branches that an epoch has for itself, so that a link of an earlier one never finds another's socket.
const BRANCHES_PER_EPOCH: u32 = 10_000;

#[derive(Debug)]
pub struct Lease {
    id: SandboxId,
    provisioner: Arc<dyn Provisioner>,
    /// `None` when it was gone already.
    sandbox: Option<SandboxHandle>,
    key_hash: [u8; 32],
    /// Under which its shim is called.
    epoch: u64,
    /// Place of the sandbox, by which other replicas can reach it.
    place: Option<String>,
    users: AtomicU32,
    next_branch: AtomicU32,
    memory: Mutex<MemoryKills>,
    /// Last measurements of its shim, of each kernel in it.
    stats: Mutex<HashMap<KernelId, Stats>>,
    transfers: Arc<Semaphore>,
    processes: Arc<Semaphore>,
}

/// Counts of out-of-memory kills: a while ago, and the last one.
#[derive(Debug, Default)]
struct MemoryKills {
    older: u64,
    newer: u64,
}

impl MemoryKills {
    /// Notes the present count. Growth is fresh until this was called twice.
    fn look(&mut self, now: u64) {
        self.older = self.newer;
        self.newer = now;
    }

    /// Takes a fresh kill that no death was attributed to, if there is one.
    fn take(&mut self, now: u64) -> bool {
        let fresh = now > self.older;
        self.older += u64::from(fresh);
        fresh
    }
}

/// A kernel's part in a sandbox.
#[derive(Debug)]
pub(crate) struct Share {
    lease: Arc<Lease>,
    left: bool,
}

impl Lease {
    /// The first share of a sandbox. `epoch` is the one under which its shim is called; no earlier one was larger.
    pub(crate) fn first(
        provisioner: Arc<dyn Provisioner>,
        id: SandboxId,
        sandbox: Option<SandboxHandle>,
        key_hash: [u8; 32],
        epoch: u64,
        place: Option<String>,
    ) -> Share {
        let numbers = u32::try_from(epoch % 100_000).unwrap_or_default();
        let lease = Arc::new(Self {
            id,
            provisioner,
            sandbox,
            key_hash,
            epoch,
            place,
            users: AtomicU32::new(1),
            next_branch: AtomicU32::new(numbers * BRANCHES_PER_EPOCH + 2),
            memory: Mutex::default(),
            stats: Mutex::default(),
            transfers: Arc::new(Semaphore::new(MAX_TRANSFERS)),
            processes: Arc::new(Semaphore::new(MAX_PROCESSES)),
        });
        Share { lease, left: false }
    }

    pub fn id(&self) -> SandboxId {
        self.id
    }

    /// Provisioner that created the sandbox.
    pub fn provisioner(&self) -> &Arc<dyn Provisioner> {
        &self.provisioner
    }

    /// The sandbox; `None` when it was gone already.
    pub fn sandbox(&self) -> Option<&SandboxHandle> {
        self.sandbox.as_ref()
    }

    pub(crate) fn key_hash(&self) -> [u8; 32] {
        self.key_hash
    }

    /// The epoch under which its shim is called.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Place by which other replicas can reach it; `None`: they cannot, or do not have its logs.
    pub(crate) fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// Notes a measurement of its shim for a kernel in it.
    pub(crate) fn note_stats(&self, kernel: KernelId, stats: Stats) {
        self.stats.lock().insert(kernel, stats);
    }

    /// Forgets the usage of a kernel that has left it.
    pub(crate) fn forget_stats(&self, kernel: KernelId) {
        self.stats.lock().remove(&kernel);
    }

    /// Usage, as its shim measured it: every 10 s. `None` before the first time.
    pub(crate) fn reported(&self) -> Option<Usage> {
        let stats = self.stats.lock();
        let sum = |sum: Usage, one: &Stats| Usage {
            processes: sum.processes.saturating_add(one.pids),
            rss_bytes: sum.rss_bytes.saturating_add(one.rss),
            cpu_millis: sum.cpu_millis.saturating_add(one.cpu_ms),
        };
        (!stats.is_empty()).then(|| stats.values().fold(Usage::default(), sum))
    }

    /// Usage: measured by its provisioner, or else by its shim. `None` if that is not known.
    pub async fn usage(&self) -> Result<Option<Usage>, SandboxError> {
        if self.provisioner.capabilities().measured_by == MeasuredBy::Shim {
            return Ok(self.reported());
        }
        Ok(self.provisioner.inspect(self.id).await?.usage)
    }

    /// Permits for commands.
    pub fn processes(&self) -> &Arc<Semaphore> {
        &self.processes
    }

    /// Permits for transfers of files.
    pub fn transfers(&self) -> &Arc<Semaphore> {
        &self.transfers
    }

    /// The name of a socket that no branch in it has had.
    pub(crate) fn branch_socket(&self) -> String {
        format!("k{}.sock", self.next_branch.fetch_add(1, Ordering::Relaxed))
    }

    /// True if there are shares of it.
    pub(crate) fn is_shared(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// Takes a share, unless the last one has been given back.
    pub(crate) fn join(self: &Arc<Self>) -> Option<Share> {
        let joined = self
            .users
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |users| {
                (users > 0).then_some(users + 1)
            });
        joined.ok().map(|_| Share {
            lease: Arc::clone(self),
            left: false,
        })
    }

    /// Looks at the count of processes that were killed because memory ran out, so that old ones are not taken for the cause
    /// of a death to come. Every few seconds.
    pub(crate) async fn look_at_memory(&self) {
        if let Ok(now) = self.provisioner.oom_kills(self.id).await {
            self.memory.lock().look(now);
        }
    }

    /// True if a process in it was killed just now because memory ran out. Waits for the count to grow as long as the provisioner may be late, at
    /// most [`MEMORY_WAIT`].
    pub(crate) async fn killed_for_memory(&self) -> bool {
        let late = self.provisioner.capabilities().oom_report_delay;
        let end = Instant::now() + late.min(Duration::from_micros(MEMORY_WAIT));
        loop {
            match self.provisioner.oom_kills(self.id).await {
                Ok(now) if self.memory.lock().take(now) => return true,
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(sandbox = %self.id, %error, "the provisioner cannot count out-of-memory kills");
                    return false;
                }
            }
            if Instant::now() + MEMORY_LOOK > end {
                return false;
            }
            sleep(MEMORY_LOOK).await;
        }
    }
}

impl Share {
    pub(crate) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Gives the share back. `true` if it was the last: the sandbox is to be ended.
    pub(crate) fn leave(&mut self) -> bool {
        if std::mem::replace(&mut self.left, true) {
            return false;
        }
        self.lease.users.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Gives the share back, and ends the sandbox at once if it was the last.
    pub(crate) async fn end(mut self) {
        if self.leave() {
            self.stop_sandbox().await;
        }
    }

    /// Ends the sandbox at once, with every kernel in it.
    pub(crate) async fn stop_sandbox(&self) {
        match self.lease.provisioner.stop(self.lease.id, Duration::ZERO).await {
            Ok(_) | Err(SandboxError::NotFound(_)) => {}
            Err(error) => tracing::error!(sandbox = %self.lease.id, %error, "cannot end a sandbox"),
        }
    }
}

impl Drop for Share {
    /// Leaves the sandbox running: the gateway stops without its kernels.
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use himalia_provisioner::Isolation;

    use super::*;
    use crate::MemoryGauge;
    use crate::testing::StubProvisioner;

    fn first(epoch: u64) -> Share {
        let provisioner = Arc::new(StubProvisioner::new(Isolation::None));
        let id = "0123456789abcdef0123456789abcdef".parse().unwrap();
        Lease::first(provisioner, id, None, [0; 32], epoch, None)
    }

    #[test]
    fn the_last_one_ends_it_and_no_kernel_joins_after_that() {
        let mut one = first(1);
        let lease = Arc::clone(one.lease());
        let mut two = lease.join().unwrap();
        assert!(!one.leave());
        assert!(!one.leave(), "a share is given back once");
        drop(lease.join().unwrap());
        assert!(two.leave());
        assert!(lease.join().is_none());
    }

    #[tokio::test]
    async fn what_a_shim_reports_counts_where_the_provisioner_does_not_measure() {
        let provisioner =
            StubProvisioner::new(Isolation::None).with(|its| its.measured_by = MeasuredBy::Shim);
        let id = SandboxId::generate().unwrap();
        let share = Lease::first(Arc::new(provisioner), id, None, [0; 32], 1, None);
        let lease = share.lease();
        assert_eq!(lease.usage().await.unwrap(), None);
        let [one, two] = [(); 2].map(|()| KernelId::random());
        let stats = |cpu_ms| Stats {
            rss: 10,
            cpu_ms,
            pids: 2,
        };
        lease.note_stats(one, stats(5));
        lease.note_stats(two, stats(100));
        lease.note_stats(one, stats(7));
        let used = Usage {
            processes: 4,
            rss_bytes: 20,
            cpu_millis: 107,
        };
        assert_eq!(lease.usage().await.unwrap(), Some(used));
        let listed = MemoryGauge::default().read(&[Arc::clone(lease)]).await;
        assert_eq!(listed.get(&id), Some(&20));
        lease.forget_stats(two);
        assert_eq!(lease.reported().map(|usage| usage.cpu_millis), Some(7));
    }

    #[test]
    fn sockets_have_names_that_a_shim_takes_and_no_other_epoch_gives() {
        let names: Vec<String> = [1, 2, 99_999]
            .into_iter()
            .flat_map(|epoch| {
                let share = first(epoch);
                [share.lease().branch_socket(), share.lease().branch_socket()]
            })
            .collect();
        assert!(
            names
                .iter()
                .all(|name| himalia_shim_protocol::Fork::check_socket(name))
        );
        let mut unique = names.clone();
        unique.dedup();
        assert_eq!(unique, names);
    }

    #[test]
    fn a_kill_is_the_cause_of_one_death_and_of_none_long_after() {
        let mut kills = MemoryKills::default();
        assert!(!kills.take(0));
        assert!(kills.take(1) && !kills.take(1));
        kills.look(2);
        assert!(kills.take(2), "one look does not make it old");
        let mut kills = MemoryKills::default();
        kills.look(1);
        kills.look(1);
        assert!(!kills.take(1));
    }
}
