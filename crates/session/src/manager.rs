//! What all sessions of a data directory share: settings, stores, limits, tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};

use himalia_budget::Budget;
use himalia_executions::{Known, Past};
use himalia_journal::{Journal, LogStore, Options, Recovery};
use himalia_kernel::{Actor, Core, Handle, Link, Now, Rules, Settings};
use himalia_kernelspecs::Catalog;
use himalia_link::{Streams, Unproven};
use himalia_model::{Clock, EngineConfig, EngineError, KernelId, Origin, SessionLimits};
use himalia_sandbox::Enforcement;
use himalia_store::Store;
use parking_lot::Mutex;
use time::OffsetDateTime;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ended::OpenLogs;
use crate::lease::Share;
use crate::places::{Place, Places};
use crate::teardown::Teardown;
use crate::{
    EndedSessions, Facts, Gate, Lease, MemoryGauge, Pool, Provisioners, Registry, Remembered, SessionKernel,
    Templates,
};

/// The kernel's number on its link: every kernel has a link of its own.
pub(crate) const LINK_KERNEL: u16 = 1;
/// Connections of a shim that wait for the actor.
const ARRIVALS: usize = 4;

/// Memory for the newest records of a log that is only read.
const READING_BYTES: usize = 256 << 10;

/// All sessions of one data directory. It authorises nobody.
pub struct SessionManager {
    /// The settings.
    pub config: EngineConfig,
    /// What makes sandboxes.
    pub provisioners: Provisioners,
    /// What can be started.
    pub templates: Templates,
    /// By template; filled once the engine is open.
    pub pools: OnceLock<BTreeMap<String, Pool>>,
    /// Sandboxes whose counts of memory kills are looked at.
    pub(crate) leases: Mutex<Vec<Weak<Lease>>>,
    pub(crate) store: Arc<dyn Store>,
    /// All kernels by id.
    pub registry: Arc<Registry>,
    /// Sessions that are over.
    pub ended: Arc<EndedSessions>,
    pub(crate) open_logs: OpenLogs,
    /// What was read of executions lately.
    pub executions: Remembered<Known>,
    /// The same of histories.
    pub histories: Remembered<Past>,
    /// The kernelspecs of this host.
    pub catalog: Catalog,
    /// One start at a time for each name of a session, one change at a time for each session.
    pub(crate) gate: Arc<Gate>,
    /// When the data directory was opened.
    pub started: OffsetDateTime,
    /// Of the latest command, microseconds since 1970.
    pub(crate) last_command: AtomicU64,
    /// Places for kernels.
    pub(crate) places: Places,
    /// What callers without a key may cost.
    pub(crate) unproven: Arc<Unproven>,
    /// What principals take of what there is for all of them.
    pub budget: Budget,
    /// The memory of sandboxes, for lists.
    pub memory: MemoryGauge,
    /// Set first when the engine stops: commands are refused, feeds end.
    pub draining: CancellationToken,
    /// Sessions without a sandbox that a request waits for.
    pub(crate) wants: mpsc::Sender<KernelId>,
    /// Ends actors and leaves their kernels running.
    pub(crate) stop_actors: CancellationToken,
    pub(crate) actors: TaskTracker,
    /// Tasks that a stop waits for.
    pub background: TaskTracker,
    pub(crate) drained: AtomicBool,
    /// Zero of the monotonic clock.
    pub(crate) clock: Instant,
}

impl fmt::Debug for SessionManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionManager")
    }
}

/// What an actor is made from.
pub(crate) struct Member {
    pub(crate) facts: Facts,
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) share: Share,
    /// Name of the socket that its link calls.
    pub(crate) socket: String,
    /// Where its shim calls; `None` when its sandbox is gone.
    pub(crate) link: Option<Link>,
    pub(crate) place: Option<Place>,
    pub(crate) adoption_deadline: Option<Instant>,
}

impl SessionManager {
    /// What ages are counted by.
    pub(crate) fn time(&self) -> &Clock {
        &self.config.clock
    }

    pub(crate) fn now(&self) -> Now {
        let mono = Instant::now().saturating_duration_since(self.clock);
        Now {
            mono: u64::try_from(mono.as_micros()).unwrap_or(u64::MAX),
            wall: self.time().micros(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            kernel: LINK_KERNEL,
            epoch: self.store.epoch(),
            restart_limit: self.config.restart_limit,
            message_bytes: self.config.message_bytes,
            grace_ms: u64::try_from(self.config.shutdown_grace.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// What follows a crash, how long an execution may take, whether files are watched. `disk` is who enforces their limit.
    pub(crate) fn rules(&self, origin: Origin, limits: &SessionLimits, disk: Enforcement) -> Rules {
        Rules {
            restart_limit: match origin {
                Origin::Jupyter => self.config.restart_limit,
                Origin::V1 => 0,
            },
            revive: origin == Origin::V1,
            execution: limits.execution_ms.map(|ms| ms.saturating_mul(1000)),
            watch_disk: disk == Enforcement::Watched,
        }
    }

    /// Directory of a new kernel's log, relative to the data directory. Not the id alone: callers may choose it again
    /// while clients still read the log of the kernel that had it before.
    pub(crate) fn log_dir(id: KernelId, created_micros: u64) -> String {
        format!("kernels/{id}-{created_micros:x}")
    }

    /// Where logs are kept, by their names relative to the data directory.
    pub(crate) fn logs(&self) -> LogStore {
        LogStore::new(&self.config.data_dir)
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

    /// Opens a log that nobody writes any more. Blocks on the disk.
    pub(crate) fn open_for_reading(&self, dir: &str) -> Result<Journal, EngineError> {
        let options = Options {
            tail_bytes: READING_BYTES,
            quota_bytes: u64::MAX,
            ..Options::default()
        };
        self.logs()
            .open(dir, options)
            .map(|(journal, _)| journal)
            .map_err(|error| EngineError::internal("cannot open the log of a session that is over", error))
    }

    /// A sandbox of this gateway, with its first share.
    pub(crate) fn lease(&self, first: Share) -> Share {
        let mut leases = self.leases.lock();
        leases.retain(|lease| lease.strong_count() > 0);
        leases.push(Arc::downgrade(first.lease()));
        first
    }

    /// Listens where a sandbox's shim calls. [`EngineError::Unavailable`] for one that is gone.
    pub(crate) fn listen(&self, lease: &Lease, socket: &str) -> Result<Link, EngineError> {
        self.listen_with(lease, socket, Arc::default())
    }

    /// The same for a kernel that has `streams` already.
    pub(crate) fn listen_with(
        &self,
        lease: &Lease,
        socket: &str,
        streams: Arc<Streams>,
    ) -> Result<Link, EngineError> {
        let sandbox = lease.sandbox();
        let sandbox = sandbox.ok_or_else(|| EngineError::unavailable("the sandbox has ended"))?;
        let gate = himalia_link::Gate {
            key_hash: lease.key_hash(),
            epoch: self.store.epoch(),
            unproven: Arc::clone(&self.unproven),
        };
        let listener = sandbox.endpoint.listen(socket, gate);
        let listener =
            listener.map_err(|error| EngineError::internal("cannot listen for a sandbox", error))?;
        let (arrivals_in, arrivals) = mpsc::channel(ARRIVALS);
        let done = CancellationToken::new();
        let arrived = Arc::clone(&streams);
        self.background
            .spawn(listener.run(arrivals_in, arrived, done.clone()));
        Ok(Link {
            arrivals,
            streams,
            done: done.drop_guard(),
            socket: socket.to_owned(),
        })
    }

    /// Starts the actor of a kernel.
    pub(crate) fn spawn(&self, member: Member) -> Arc<SessionKernel> {
        let Member {
            facts,
            core,
            journal,
            share,
            socket,
            link,
            place,
            adoption_deadline,
        } = member;
        let id = facts.id;
        let lease = Arc::clone(share.lease());
        let (arrivals, streams, done) = match link {
            Some(link) => (Some(link.arrivals), link.streams, link.done),
            None => (None, Arc::default(), CancellationToken::new().drop_guard()),
        };
        let sandbox_exit = lease
            .sandbox()
            .map(|sandbox| self.watch_sandbox(id, sandbox.clone(), &done));
        let (handle, mailboxes) = Handle::new(id, journal, streams, &core);
        let kernel = Arc::new(SessionKernel::new(facts, lease, handle));
        *kernel.place.lock() = place;
        let actor = Actor {
            core,
            handle: Arc::clone(kernel.handle()),
            mailboxes,
            arrivals,
            link_kernel: LINK_KERNEL,
            host: Box::new(self.host(&kernel, share, socket)),
            sandbox_exit,
            stop: self.stop_actors.child_token(),
            done,
            wants: self.wants.clone(),
            adoption_deadline,
            epoch: self.store.epoch(),
            started: self.clock,
            time: self.config.clock.clone(),
        };
        self.actors.spawn(actor.run());
        kernel
    }

    /// What is above a kernel in this sandbox, for its actor.
    pub(crate) fn host(&self, kernel: &Arc<SessionKernel>, share: Share, socket: String) -> Teardown {
        Teardown::new(
            Arc::clone(kernel),
            share,
            socket,
            self.store.clone(),
            Arc::clone(&self.registry),
            Arc::clone(&self.ended),
        )
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
