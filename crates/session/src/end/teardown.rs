//! Removes the parts of a kernel outside its actor: the sandbox, the rows in the store, the entry in the registry.

use std::sync::Arc;
use std::time::Duration;

use himalia_journal::may_block;
use himalia_kernel::{Command, HostFuture, KernelHost};
use himalia_link::FIRST_LINK;
use himalia_model::{Session, SessionId, StartPath};
use himalia_provisioner::DiskUse;
use himalia_shim_protocol::{StartPath as ShimStartPath, Stats};
use himalia_store::{KernelLife, Store};
use serde_json::Map;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::end::forget_kept_files;
use crate::sandbox_lease::Share;
use crate::{EndedSessions, Meter, Registry, SessionKernel};

/// Reason of an additional kernel that ended with its session.
pub(crate) const SESSION_ENDED: &str = "session_ended";

/// Parts to remove when a kernel ends.
#[derive(Debug)]
pub(crate) struct Teardown {
    kernel: Arc<SessionKernel>,
    share: Share,
    /// Name of the socket that its link calls.
    socket: String,
    /// The sandbox is to be ended, since no other kernel is in it.
    last: bool,
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    ended: Arc<EndedSessions>,
    meter: Arc<Meter>,
}

impl Teardown {
    pub(crate) fn new(
        kernel: Arc<SessionKernel>,
        share: Share,
        socket: String,
        store: Arc<dyn Store>,
        registry: Arc<Registry>,
        ended: Arc<EndedSessions>,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            kernel,
            share,
            socket,
            last: false,
            store,
            registry,
            ended,
            meter,
        }
    }
}

impl KernelHost for Teardown {
    fn may_act(&self) -> bool {
        self.store.lease().is_valid()
    }

    fn execution_ended(&self, caller: &str, took: Duration) {
        self.meter
            .execution_ended(&self.kernel.session().owner, caller, took);
    }

    fn process_started(&self, pid: i32, incarnation: u32, path: ShimStartPath) {
        let id = self.kernel.id();
        let before = self.kernel.session();
        let first = incarnation == 1 && before.start_path == StartPath::Cold && path == ShimStartPath::Zygote;
        let changes = if first {
            self.kernel
                .change(|session| session.start_path = StartPath::Zygote);
            let after = Session {
                start_path: StartPath::Zygote,
                ..Session::clone(&before)
            };
            after.changes_since(&before)
        } else {
            Map::new()
        };
        let (store, lease) = (self.store.clone(), Arc::clone(self.share.lease()));
        tokio::spawn(async move {
            let noted = store
                .set_kernel_life(id.0, KernelLife::Live, incarnation, None)
                .await;
            if let Err(error) = noted {
                tracing::error!(kernel = %id, %error, "cannot note a kernel's start");
            }
            if !changes.is_empty()
                && let Err(error) = store.amend_session(id.0, changes).await
            {
                tracing::error!(kernel = %id, %error, "cannot note how a kernel was started");
            }
            if let Ok(pid) = u32::try_from(pid)
                && let Err(error) = lease.provisioner().note_process(lease.id(), pid).await
            {
                tracing::debug!(kernel = %id, %error, "cannot note a kernel's process");
            }
        });
    }

    fn measured(&self, stats: Stats) {
        self.share.lease().note_stats(self.kernel.id(), stats);
    }

    fn check_memory(&self, answer: mpsc::Sender<bool>) {
        let lease = Arc::clone(self.share.lease());
        tokio::spawn(async move {
            let killed = lease.killed_for_memory().await;
            // The kernel may have ended.
            let _ = answer.send(killed).await;
        });
    }

    fn measure_disk(&self, answer: mpsc::Sender<Option<DiskUse>>) {
        let lease = Arc::clone(self.share.lease());
        tokio::spawn(async move {
            let found = lease.provisioner().disk_use(lease.id()).await;
            let found = found.unwrap_or_else(|error| {
                tracing::debug!(sandbox = %lease.id(), %error, "cannot measure files");
                None
            });
            // The kernel may have ended.
            let _ = answer.send(found).await;
        });
    }

    fn moved_in(&self) {
        self.kernel.set_lease(Arc::clone(self.share.lease()));
    }

    fn end_additional(&self) -> HostFuture<'_> {
        Box::pin(async {
            let mut ends = JoinSet::new();
            // An additional kernel ends alone.
            let session = SessionId::of_first_kernel(self.kernel.id());
            for kernel in self.registry.additional(session) {
                ends.spawn(async move {
                    kernel.order(Command::Stop(SESSION_ENDED)).await;
                    kernel.gone().await;
                });
            }
            ends.join_all().await;
        })
    }

    fn leave(&mut self) -> bool {
        self.share.lease().forget_stats(self.kernel.id());
        self.last |= self.share.leave();
        self.last
    }

    fn clean_up(&mut self, forget: bool) -> HostFuture<'_> {
        Box::pin(self.end(forget))
    }
}

impl Teardown {
    async fn end(&mut self, forget: bool) {
        let handle = Arc::clone(&self.kernel);
        if self.last {
            self.share.stop_sandbox().await;
        } else if let Some(sandbox) = self.share.lease().sandbox().filter(|_| self.socket != FIRST_LINK) {
            sandbox.endpoint.remove_link(&self.socket);
        }
        let id = handle.id();
        let noted = if forget {
            let ended = self.ended.end(&handle);
            if ended.as_ref().is_none_or(|row| row.removed_micros.is_some()) {
                handle.forget_log();
            } else if let Err(error) = may_block(|| handle.journal.sync()) {
                tracing::error!(kernel = %id, %error, "cannot flush the log of a session that is over");
            }
            // The next session of this id must not find them.
            forget_kept_files(&self.registry, self.share.lease(), &handle.session().sandbox).await;
            let deleted = match ended {
                Some(row) => self.store.end_kernel(row).await,
                None => self.store.delete_kernel(id.0).await.map(drop),
            };
            // Its id is free from here on.
            self.registry.remove(&handle);
            deleted
        } else {
            let (incarnation, reason) = {
                let snapshot = handle.snapshot.borrow();
                (snapshot.incarnation, snapshot.reason.clone())
            };
            self.store
                .set_kernel_life(id.0, KernelLife::Dead, incarnation, reason)
                .await
                .map(drop)
        };
        if let Err(error) = noted {
            tracing::error!(kernel = %id, %error, "cannot note a kernel's end");
        }
        // A session that continues in another sandbox keeps its permit.
        if forget || !handle.session().outlives_sandbox() {
            drop(handle.permit.lock().take());
        }
    }
}
