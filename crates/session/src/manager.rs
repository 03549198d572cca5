//! State that all sessions of a data directory share: settings, stores, limits, tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use himalia_budget::Budget;
use himalia_egress::{Egress, TrustStore};
use himalia_executions::{CachedHistory, Known};
use himalia_journal::{Journal, LogStore, Options, Recovery, SharedLogs};
use himalia_kernel::{Rules, Settings, Timestamp};
use himalia_kernelspecs::Catalog;
use himalia_link::UnprovenBudget;
use himalia_metrics::Metrics;
use himalia_model::{Clock, EngineConfig, EngineError, KernelId, Origin, SandboxConfig, SessionLimits};
use himalia_sandbox::Enforcement;
use himalia_shared_log::ReplicaLogs;
use himalia_store::Store;
use himalia_traces::Traces;
use parking_lot::Mutex;
use time::OffsetDateTime;
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::credentials::FromHere;
use crate::disk::Rooms;
use crate::end::OpenLogs;
use crate::readiness::LastCheck;
use crate::sandbox_lease::Share;
use crate::skills::SessionSkills;
use crate::start::{KernelLimits, TakeOvers};
use crate::{
    Credentials, EndedSessions, Gate, Lease, Llm, LogCache, MemoryGauge, Meter, Pool, Provisioners, Registry,
    SessionPrograms, Templates, Tools,
};

/// Memory for the newest records of a log that is only read.
const READING_BYTES: usize = 256 << 10;

/// The kernel's number on its link: every kernel has a link of its own.
pub(crate) const LINK_KERNEL: u16 = 1;

/// All sessions of one data directory. It authorises no caller.
pub struct SessionManager {
    /// The settings.
    pub config: EngineConfig,
    /// Counters and timers.
    pub metrics: Metrics,
    /// Recorder of spans.
    pub traces: Traces,
    /// Provisioners of sandboxes.
    pub provisioners: Provisioners,
    /// Templates of sessions.
    pub templates: Templates,
    /// By template; filled once the engine is open.
    pub pools: OnceLock<BTreeMap<String, Pool>>,
    /// Sandboxes whose counts of memory kills are looked at.
    pub(crate) leases: Mutex<Vec<Weak<Lease>>>,
    pub(crate) store: Arc<dyn Store>,
    /// Logs that outlive the data directory, if they do.
    pub(crate) shared_logs: Option<ReplicaLogs>,
    /// Under which shims are called that this replica has now; it grows.
    pub(crate) link_epoch: AtomicU64,
    /// Sessions that are being taken over from other replicas.
    pub(crate) taking: TakeOvers,
    /// All kernels by id.
    pub registry: Arc<Registry>,
    /// Ended sessions.
    pub ended: Arc<EndedSessions>,
    pub(crate) open_logs: OpenLogs,
    /// Cache of folded executions.
    pub executions: LogCache<Known>,
    /// The same of histories.
    pub histories: LogCache<CachedHistory>,
    /// The kernelspecs of this host.
    pub catalog: Catalog,
    /// One start at a time for each name of a session, one change at a time for each session.
    pub(crate) gate: Arc<Gate>,
    /// When the data directory was opened.
    pub started: OffsetDateTime,
    /// Time of the latest command, in microseconds since 1970.
    pub(crate) last_command: AtomicU64,
    /// Limits of running kernels.
    pub(crate) kernel_limits: KernelLimits,
    /// Bounds for callers without a key.
    pub(crate) unproven: Arc<UnprovenBudget>,
    /// The credentials of sessions.
    pub credentials: Arc<Credentials>,
    /// The tools of sessions.
    pub tools: Arc<Tools>,
    /// Starter of programs of tool servers.
    pub(crate) programs: Arc<SessionPrograms>,
    /// Runner of skills for code of sessions.
    pub(crate) skills: Arc<OnceLock<Arc<dyn SessionSkills>>>,
    /// Language models.
    pub(crate) llm: Arc<Llm>,
    /// Certificates by which programs verify hosts, where TLS of sessions is read.
    pub(crate) certificates: Option<TrustStore>,
    /// Network access of sessions.
    pub(crate) egress: Arc<Egress>,
    /// The bytes that are about to be written.
    pub(crate) rooms: Arc<Rooms>,
    /// Outbound HTTP for callbacks.
    pub(crate) outgoing: FromHere,
    /// Shares that principals have of common resources.
    pub budget: Arc<Budget>,
    /// The memory of sandboxes, for lists.
    pub memory: MemoryGauge,
    /// Usage of owners.
    pub(crate) meter: Arc<Meter>,
    /// Set first when the engine stops: commands are refused, feeds end.
    pub draining: CancellationToken,
    /// Sessions without a sandbox that a request waits for.
    pub(crate) wants: mpsc::Sender<KernelId>,
    /// Ends actors and leaves their kernels running.
    pub(crate) stop_actors: CancellationToken,
    pub(crate) actors: TaskTracker,
    /// Tasks that end with the gateway.
    pub background: TaskTracker,
    /// Starts under way, and ends of what was claimed in vain: a stop waits for them, so that it sees what they make.
    pub(crate) starts: TaskTracker,
    pub(crate) drained: AtomicBool,
    /// Set when what waited for sessions was ended, or given up.
    pub(crate) spare_ended: OnceCell<()>,
    pub(crate) last_check: LastCheck,
    /// Number of live replicas, this one among them.
    pub(crate) living: watch::Sender<u32>,
    /// Zero of the monotonic clock.
    pub(crate) clock: Instant,
}

impl fmt::Debug for SessionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionManager")
    }
}

impl SessionManager {
    /// Clock for ages.
    pub(crate) fn time(&self) -> &Clock {
        &self.config.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        let mono = Instant::now().saturating_duration_since(self.clock);
        Timestamp {
            mono: u64::try_from(mono.as_micros()).unwrap_or(u64::MAX),
            wall: self.time().micros(),
        }
    }

    /// The epoch for the links of a new sandbox.
    pub(crate) fn link_epoch(&self) -> u64 {
        self.link_epoch.load(Ordering::Acquire)
    }

    /// The place of what this replica starts, as its rows have it: only a log that others can have makes it of use to them.
    pub(crate) fn place(&self) -> Option<String> {
        let place = self.provisioners.place().map(str::to_owned);
        place.filter(|_| self.shared_logs.is_some())
    }

    /// True if this kernel was taken from another replica and is not ready yet. True also for kernels that are about to be taken.
    pub fn is_taking(&self, kernel: KernelId) -> bool {
        self.taking.has(kernel)
    }

    pub(crate) fn settings(&self, epoch: u64) -> Settings {
        Settings {
            kernel: LINK_KERNEL,
            epoch,
            restart_limit: self.config.restart_limit,
            message_bytes: self.config.message_bytes,
            grace_ms: u64::try_from(self.config.shutdown_grace.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Rules of a kernel: after a crash, for the time of an execution, and for its files.
    pub(crate) fn rules(&self, origin: Origin, sandbox: &SandboxConfig) -> Rules {
        Rules {
            restart_limit: match origin {
                Origin::Jupyter => self.config.restart_limit,
                Origin::V1 => 0,
            },
            revive: origin == Origin::V1,
            execution: sandbox.limits.execution_ms.map(|ms| ms.saturating_mul(1000)),
            watch_disk: sandbox.enforcement.disk == Enforcement::Watched,
        }
    }

    /// Directory of a new kernel's log, relative to the data directory. Not the id alone: callers may choose it again
    /// while clients still read the log of the kernel that had it before.
    pub(crate) fn log_dir(id: KernelId, created_micros: u64) -> String {
        format!("kernels/{id}-{created_micros:x}")
    }

    /// Storage of logs, by their names relative to the data directory.
    pub(crate) fn logs(&self) -> LogStore {
        let shared = self.shared_logs.clone();
        LogStore::new(&self.config.data_dir)
            .shared(shared.map(|shared| Arc::new(shared) as Arc<dyn SharedLogs>))
    }

    /// Bytes of logs that wait for the object store.
    pub fn log_bytes_waiting(&self) -> u64 {
        self.shared_logs.as_ref().map_or(0, ReplicaLogs::waiting_bytes)
    }

    /// Disk for the log of a session with these limits, in bytes.
    pub(crate) fn log_quota(&self, limits: &SessionLimits) -> u64 {
        limits.output_bytes.unwrap_or(self.config.journal_quota_bytes)
    }

    /// Opens the log in a directory relative to the data directory. Blocks on the disk.
    pub(crate) fn open_log(
        &self,
        dir: &str,
        limits: &SessionLimits,
    ) -> Result<(Journal, Recovery), EngineError> {
        let options = Options {
            tail_bytes: self.config.journal_tail_bytes,
            quota_bytes: self.log_quota(limits),
            ..Options::default()
        };
        let open = || {
            self.logs()
                .open(dir, options)
                .map_err(|error| EngineError::internal("cannot open a kernel's log", error))
        };
        self.open_logs.open(dir, open, |(journal, _)| journal)
    }

    /// Opens a log that is not written any more. Blocks on the disk.
    pub(crate) fn open_for_reading(&self, dir: &str) -> Result<Journal, EngineError> {
        let options = Options {
            tail_bytes: READING_BYTES,
            quota_bytes: u64::MAX,
            ..Options::default()
        };
        self.logs()
            .open(dir, options)
            .map(|(journal, _)| journal)
            .map_err(|error| EngineError::internal("cannot open the log of an ended session", error))
    }

    /// A sandbox of this gateway, with its first share.
    pub(crate) fn lease(&self, first: Share) -> Share {
        let mut leases = self.leases.lock();
        leases.retain(|lease| lease.strong_count() > 0);
        leases.push(Arc::downgrade(first.lease()));
        first
    }

    /// From now on, this runs skills for code of sessions.
    pub fn serve_skills(&self, skills: Arc<dyn SessionSkills>) {
        // It is said once, when the engine opens.
        let _ = self.skills.set(skills);
    }

    /// Refuses commands while the engine stops.
    pub fn check_open(&self) -> Result<(), EngineError> {
        if self.draining.is_cancelled() {
            Err(EngineError::unavailable("the gateway is stopping"))
        } else {
            Ok(())
        }
    }
}
