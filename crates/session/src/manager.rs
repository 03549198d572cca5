//! State that all sessions of a data directory share: settings, stores, limits, tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use himalia_budget::Budget;
use himalia_executions::{CachedExecution, CachedHistory};
use himalia_kernel::{Rules, Settings, Timestamp};
use himalia_kernelspecs::Catalog;
use himalia_metrics::Metrics;
use himalia_model::{Clock, EngineConfig, EngineError, KernelId, Origin, SandboxConfig};
use himalia_provisioner::Enforcement;
use himalia_store::Store;
use himalia_traces::Traces;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::logs::SessionLogs;
use crate::meter::PendingUsage;
use crate::replica::Replica;
use crate::services::{CodeServices, NetworkServices};
use crate::skills::SessionSkills;
use crate::start::StartControl;
use crate::stop_state::StopState;
use crate::times::Times;
use crate::{
    Credentials, EndedSessions, LogCache, MemoryGauge, Pool, Provisioners, Registry, Templates, Tools,
};

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
    pub templates: Templates,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) logs: SessionLogs,
    /// State of this gateway as one replica of several.
    pub(crate) replica: Replica,
    /// Bounds and order of starts.
    pub(crate) starts: StartControl,
    /// All kernels by id, and their sandboxes.
    pub registry: Arc<Registry>,
    pub ended: Arc<EndedSessions>,
    /// Cache of folded executions.
    pub executions: LogCache<CachedExecution>,
    pub histories: LogCache<CachedHistory>,
    /// The kernelspecs of this host.
    pub catalog: Catalog,
    pub(crate) times: Times,
    pub credentials: Arc<Credentials>,
    pub tools: Arc<Tools>,
    /// Services for code in sandboxes.
    pub(crate) services: CodeServices,
    /// Connections to other hosts.
    pub(crate) network: NetworkServices,
    /// Shares that principals have of common resources.
    pub budget: Arc<Budget>,
    /// The memory of sandboxes, for lists.
    pub memory: MemoryGauge,
    /// Usage of owners that is not stored yet.
    pub(crate) usage: PendingUsage,
    /// Set first when the engine stops: commands are refused, feeds end.
    pub draining: CancellationToken,
    /// Tasks that end with the gateway.
    pub background: TaskTracker,
    pub(crate) stopping: StopState,
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
        self.times.now()
    }

    /// Time at which the data directory was opened.
    pub fn started(&self) -> OffsetDateTime {
        self.times.started
    }

    /// Pools by template; `None` until the engine is open.
    pub fn pools(&self) -> Option<&BTreeMap<String, Pool>> {
        self.starts.pools.get()
    }

    /// The place of what this replica starts, as its rows have it: only a log that others can have makes it of use to them.
    pub(crate) fn place(&self) -> Option<String> {
        let place = self.provisioners.place().map(str::to_owned);
        place.filter(|_| self.logs.shared.is_some())
    }

    /// True if this kernel was taken from another replica and is not ready yet. True also for kernels that are about to be taken.
    pub fn is_taking(&self, kernel: KernelId) -> bool {
        self.replica.take_overs.has(kernel)
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

    /// Bytes of logs that wait for the object store.
    pub fn log_bytes_waiting(&self) -> u64 {
        self.logs.waiting_bytes()
    }

    /// From now on, this runs skills for code of sessions.
    pub fn serve_skills(&self, skills: Arc<dyn SessionSkills>) {
        // It is said once, when the engine opens.
        let _ = self.services.skills.set(skills);
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
