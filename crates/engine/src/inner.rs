//! What an engine holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use himalia_journal::{Journal, Options, Recovery};
use himalia_sandbox::{Provisioner, SandboxHandle, SandboxId};
use himalia_store::Store;
use time::OffsetDateTime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::jupyter_sessions::JupyterSessions;
use crate::kernel::{
    Actor, Core, Facts, Handle, Listener, Now, Settings, Teardown, death_cause, wall_micros,
};
use crate::kernelspecs::Catalog;
use crate::registry::Registry;
use crate::{EngineConfig, EngineError, KernelId};

/// The kernel's number on its link: one kernel per sandbox yet.
pub(crate) const LINK_KERNEL: u16 = 1;
/// Connections of a shim that wait for the actor.
const ARRIVALS: usize = 4;

/// Shared by all clones of an engine.
pub(crate) struct Inner {
    pub(crate) config: EngineConfig,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) catalog: Catalog,
    pub(crate) sessions: JupyterSessions,
    pub(crate) started: OffsetDateTime,
    /// Of the latest command, microseconds since 1970.
    pub(crate) last_command: AtomicU64,
    /// Places for kernels.
    pub(crate) places: Arc<Semaphore>,
    /// Set first when the engine stops: commands are refused, feeds end.
    pub(crate) draining: CancellationToken,
    /// Ends actors and leaves their kernels running.
    pub(crate) stop_actors: CancellationToken,
    pub(crate) actors: TaskTracker,
    pub(crate) background: TaskTracker,
    pub(crate) drained: AtomicBool,
    /// Zero of the monotonic clock.
    pub(crate) clock: Instant,
}

/// What an actor is made from.
pub(crate) struct Member {
    pub(crate) facts: Facts,
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) sandbox_id: SandboxId,
    pub(crate) sandbox: Option<SandboxHandle>,
    pub(crate) key_hash: [u8; 32],
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    pub(crate) adoption_deadline: Option<Instant>,
}

impl Inner {
    pub(crate) fn now(&self) -> Now {
        let mono = Instant::now().saturating_duration_since(self.clock);
        Now {
            mono: u64::try_from(mono.as_micros()).unwrap_or(u64::MAX),
            wall: wall_micros(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            kernel: LINK_KERNEL,
            epoch: self.store.epoch(),
            restart_limit: self.config.restart_limit,
            grace_ms: u64::try_from(self.config.shutdown_grace.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Directory of a new kernel's log, relative to the data directory. Not the id alone: callers may choose it again
    /// while clients still read the log of the kernel that had it before.
    pub(crate) fn log_dir(id: KernelId, created_micros: u64) -> String {
        format!("kernels/{id}-{created_micros:x}")
    }

    /// Opens the log in a directory relative to the data directory. Blocks on the disk.
    pub(crate) fn open_log(&self, dir: &str) -> Result<(Journal, Recovery), EngineError> {
        let options = Options {
            tail_bytes: self.config.journal_tail_bytes,
            quota_bytes: self.config.journal_quota_bytes,
            ..Options::default()
        };
        Journal::open(self.config.data_dir.join(dir), options)
            .map_err(|error| EngineError::internal("cannot open a kernel's log", error))
    }

    /// Starts the actor of a kernel, and the listener that its shim calls.
    pub(crate) fn spawn(&self, member: Member) -> Result<Arc<Handle>, EngineError> {
        let Member {
            facts,
            core,
            journal,
            sandbox_id,
            sandbox,
            key_hash,
            permit,
            adoption_deadline,
        } = member;
        let epoch = self.store.epoch();
        let (arrivals_in, arrivals) = mpsc::channel(ARRIVALS);
        let done = CancellationToken::new();
        let id = facts.id;
        let sandbox_exit = match sandbox {
            Some(sandbox) => {
                let listener = Listener::bind(&sandbox.gateway_dir, key_hash, epoch)
                    .map_err(|error| EngineError::internal("cannot listen for a sandbox", error))?;
                self.background.spawn(listener.run(arrivals_in, done.clone()));
                Some(self.watch_sandbox(id, sandbox, done.clone()))
            }
            None => None,
        };
        let (handle, mailboxes) = Handle::new(facts, journal, core.snapshot(), core.last_activity());
        let actor = Actor {
            core,
            handle: Arc::clone(&handle),
            mailboxes,
            arrivals,
            teardown: Teardown {
                id,
                kernel: LINK_KERNEL,
                sandbox_id,
                provisioner: Arc::clone(&self.provisioner),
                store: self.store.clone(),
                registry: Arc::clone(&self.registry),
                permit,
            },
            sandbox_exit,
            stop: self.stop_actors.child_token(),
            adoption_deadline,
            epoch,
            started: self.clock,
        };
        self.actors.spawn(async move {
            actor.run().await;
            done.cancel();
        });
        Ok(handle)
    }

    /// Tells once how the sandbox ended, unless `done` comes first.
    fn watch_sandbox(
        &self,
        id: KernelId,
        sandbox: SandboxHandle,
        done: CancellationToken,
    ) -> oneshot::Receiver<String> {
        let (tell, told) = oneshot::channel();
        self.background.spawn(async move {
            let exit = tokio::select! {
                () = done.cancelled() => return,
                exit = sandbox.ended() => exit,
            };
            let Some(exit) = exit else { return };
            let log = exit.log_tail.lines().last().unwrap_or_default();
            tracing::warn!(kernel = %id, cause = %exit.cause, log, "a sandbox has ended");
            // The actor may have ended meanwhile.
            let _ = tell.send(death_cause(exit.cause));
        });
        told
    }

    /// Refuses commands while the engine stops.
    pub(crate) fn check_open(&self) -> Result<(), EngineError> {
        if self.draining.is_cancelled() {
            Err(EngineError::unavailable("the gateway is stopping"))
        } else {
            Ok(())
        }
    }
}
