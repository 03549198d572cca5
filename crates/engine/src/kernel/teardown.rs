//! The outside of a kernel as its actor needs it: its sandbox and its row in the store.

use std::sync::Arc;

use himalia_journal::may_block;
use himalia_model::StartPath;
use himalia_sandbox::{DiskUse, SOCKET_FILE};
use himalia_shim_protocol::StartPath as ShimStartPath;
use himalia_store::{KernelLife, Store};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::event::Command;
use super::handle::Handle;
use crate::ended::EndedSessions;
use crate::kept_files::forget_kept_files;
use crate::lease::Share;
use crate::registry::Registry;

/// Why a further kernel ended whose session ended.
pub(crate) const SESSION_ENDED: &str = "session_ended";

/// What is left to do when a kernel ends.
#[derive(Debug)]
pub(crate) struct Teardown {
    /// The kernel's number on its link.
    pub(crate) kernel: u16,
    /// Name of the socket that its link calls.
    pub(crate) socket: String,
    pub(crate) share: Share,
    /// The sandbox is to be ended, since nobody else is in it.
    pub(crate) last: bool,
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    pub(crate) ended: Arc<EndedSessions>,
}

impl Teardown {
    /// A process runs: it is noted where a later gateway looks, and for whoever has to kill it.
    pub(crate) fn process_started(
        &self,
        handle: &Arc<Handle>,
        pid: i32,
        incarnation: u32,
        path: ShimStartPath,
    ) {
        let facts = handle.facts();
        let first = incarnation == 1 && facts.start_path == StartPath::Cold && path == ShimStartPath::Zygote;
        if first {
            handle.change_facts(|facts| facts.start_path = StartPath::Zygote);
        }
        let (store, lease, id) = (self.store.clone(), Arc::clone(self.share.lease()), facts.id);
        tokio::spawn(async move {
            let noted = store
                .set_kernel_life(id.0, KernelLife::Live, incarnation, None)
                .await;
            if let Err(error) = noted {
                tracing::error!(kernel = %id, %error, "cannot note a kernel's start");
            }
            if first
                && let Err(error) = store
                    .set_kernel_start_path(id.0, StartPath::Zygote.as_str())
                    .await
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

    /// Finds out whether a death was for want of memory.
    pub(crate) fn check_memory(&self, answer: mpsc::Sender<bool>) {
        let lease = Arc::clone(self.share.lease());
        tokio::spawn(async move {
            let killed = lease.killed_for_memory().await;
            // The kernel may be over.
            let _ = answer.send(killed).await;
        });
    }

    /// Measures the space that the files take.
    pub(crate) fn measure_disk(&self, answer: mpsc::Sender<Option<DiskUse>>) {
        let lease = Arc::clone(self.share.lease());
        tokio::spawn(async move {
            let found = lease.provisioner().disk_use(lease.id()).await;
            let found = found.unwrap_or_else(|error| {
                tracing::debug!(sandbox = %lease.id(), %error, "cannot measure files");
                None
            });
            // The kernel may be over.
            let _ = answer.send(found).await;
        });
    }

    /// Ends the further kernels of a session that is over; nothing of them is left when this returns.
    pub(crate) async fn end_further(&self, handle: &Handle) {
        let mut ends = JoinSet::new();
        for further in self.registry.further(handle.id()) {
            ends.spawn(async move {
                further.order(Command::Stop(SESSION_ENDED)).await;
                further.gone().await;
            });
        }
        ends.join_all().await;
    }

    /// The kernel leaves its sandbox. `true` if it was the last one in it.
    pub(crate) fn leave(&mut self) -> bool {
        self.last |= self.share.leave();
        self.last
    }

    /// Ends the sandbox if the kernel was the last one in it, and removes what is left; with `forget` also the kernel
    /// itself, otherwise it stays listed as dead.
    pub(crate) async fn run(&mut self, handle: &Arc<Handle>, forget: bool) {
        if self.last {
            self.share.stop_sandbox().await;
        } else if let Some(sandbox) = self
            .share
            .lease()
            .sandbox()
            .filter(|_| self.socket != SOCKET_FILE)
        {
            // Gone with the sandbox, if that has ended meanwhile.
            let _ = std::fs::remove_file(sandbox.gateway_dir.join(&self.socket));
        }
        let id = handle.id();
        let noted = if forget {
            let ended = self.ended.end(handle);
            if ended.as_ref().is_none_or(|row| row.removed_micros.is_some()) {
                handle.forget_log();
            } else if let Err(error) = may_block(|| handle.journal.sync()) {
                tracing::error!(kernel = %id, %error, "cannot flush the log of a session that is over");
            }
            // Whoever takes the id next must not find them.
            forget_kept_files(&self.registry, self.share.lease(), &handle.facts().around).await;
            let deleted = match ended {
                Some(row) => self.store.end_kernel(row).await,
                None => self.store.delete_kernel(id.0).await.map(drop),
            };
            // Its id is free from here on.
            self.registry.remove(handle);
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
        // A session that goes on in another sandbox keeps its place.
        if forget || !handle.facts().outlives_sandbox() {
            drop(handle.place.lock().take());
        }
    }
}
