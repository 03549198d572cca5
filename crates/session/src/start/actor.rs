//! The row, the log and the actor of a kernel; and how nothing stays behind of one that was not started.

use std::sync::Arc;

use himalia_journal::Journal;
use himalia_kernel::{Actor, Core, Handle, Link};
use himalia_link::FIRST_LINK;
use himalia_model::{EngineError, KernelId, Session};
use himalia_store::{KernelLife, RuntimePaths, StoreError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::kernel_limit::KernelPermit;
use crate::end::{Teardown, forget_kept_files};
use crate::manager::LINK_KERNEL;
use crate::record::record;
use crate::sandbox_lease::Share;
use crate::{SessionKernel, SessionManager, not_stored};

/// A kernel before it exists: what it will be, its part of a sandbox, and the link on which its shim will call.
pub(crate) struct PreparedKernel {
    pub(crate) id: KernelId,
    pub(crate) session: Session,
    /// `metadata.cull_idle_timeout` of its kernelspec, seconds.
    pub(crate) cull_timeout: Option<f64>,
    pub(crate) share: Share,
    pub(crate) link: Link,
    pub(crate) paths: RuntimePaths,
}

/// Inputs of a new actor.
pub(crate) struct NewActor {
    pub(crate) id: KernelId,
    pub(crate) session: Session,
    pub(crate) cull_timeout: Option<f64>,
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) share: Share,
    /// Name of the socket that its link calls.
    pub(crate) socket: String,
    /// Link for its shim; `None` when its sandbox is gone.
    pub(crate) link: Option<Link>,
    pub(crate) permit: Option<KernelPermit>,
    pub(crate) adoption_deadline: Option<Instant>,
}

impl SessionManager {
    /// Writes the row by which a later gateway finds the kernel.
    pub(super) async fn insert_row(&self, prepared: &PreparedKernel) -> Result<(), EngineError> {
        let row = record(
            prepared.id,
            &prepared.session,
            &prepared.paths,
            prepared.share.lease().place(),
            (KernelLife::Starting, 0),
        );
        self.store.insert_kernel(row).await.map_err(|error| match error {
            // This gateway has none: it is another replica's.
            StoreError::Conflict { .. } => EngineError::Conflict {
                reason: match &prepared.session.name {
                    Some(name) => format!("another gateway has the session {name}, or a kernel of this id"),
                    None => "another gateway has a kernel of this id".to_owned(),
                },
            },
            other => not_stored("cannot note a new kernel", other),
        })
    }

    /// Opens the log of a kernel and starts its actor. A failure leaves nothing of the kernel.
    pub(super) async fn start_actor(
        self: &Arc<Self>,
        prepared: PreparedKernel,
        core: Core,
        permit: Option<KernelPermit>,
        adoption_deadline: Option<Instant>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let (inner, dir) = (Arc::clone(self), prepared.paths.session_dir.clone());
        let limits = prepared.session.sandbox.limits.clone();
        let opened = tokio::task::spawn_blocking(move || inner.logs.open(&dir, &limits)).await;
        let opened = opened
            .map_err(|error| EngineError::internal("opening a log", error))
            .and_then(|opened| opened);
        match opened {
            Ok((journal, _)) => Ok(self.spawn(NewActor {
                id: prepared.id,
                session: prepared.session,
                cull_timeout: prepared.cull_timeout,
                core,
                journal,
                share: prepared.share,
                socket: prepared.paths.socket,
                link: Some(prepared.link),
                permit,
                adoption_deadline,
            })),
            Err(error) => {
                self.discard(prepared).await;
                Err(error)
            }
        }
    }

    /// A new state machine for this kernel.
    pub(super) fn new_core(&self, prepared: &PreparedKernel) -> Core {
        let session = &prepared.session;
        let mut core = Core::new(self.settings(prepared.share.lease().epoch()), self.now());
        core.set_rules(self.rules(session.origin, &session.sandbox));
        core
    }

    /// A kernel was not started: its row, its log and its part of the sandbox go.
    pub(super) async fn discard(&self, prepared: PreparedKernel) {
        let id = prepared.id;
        if let Err(error) = self.store.delete_kernel(id.0).await {
            tracing::error!(kernel = %id, %error, "cannot forget a kernel that was not started");
        }
        self.logs.storage().remove(&prepared.paths.session_dir);
        self.release(prepared).await;
    }

    /// Gives back a kernel's part of a sandbox. Its last part ends the sandbox and removes its files.
    pub(super) async fn release(&self, prepared: PreparedKernel) {
        let PreparedKernel {
            session,
            share,
            link,
            paths,
            ..
        } = prepared;
        drop(link);
        let lease = Arc::clone(share.lease());
        if let Some(sandbox) = lease.sandbox().filter(|_| paths.socket != FIRST_LINK) {
            sandbox.endpoint.remove_link(&paths.socket);
        }
        share.end().await;
        forget_kept_files(&self.registry, &lease, &session.sandbox).await;
    }

    /// Starts the actor of a kernel.
    pub(super) fn spawn(&self, new: NewActor) -> Arc<SessionKernel> {
        let NewActor {
            id,
            session,
            cull_timeout,
            core,
            journal,
            share,
            socket,
            link,
            permit,
            adoption_deadline,
        } = new;
        let lease = Arc::clone(share.lease());
        let epoch = lease.epoch();
        let (arrivals, streams, done) = match link {
            Some(link) => (Some(link.arrivals), link.streams, link.done),
            None => (None, Arc::default(), CancellationToken::new().drop_guard()),
        };
        let sandbox_exit = lease
            .sandbox()
            .map(|sandbox| self.watch_sandbox(id, sandbox.clone(), &done));
        let (handle, mailboxes) = Handle::new(
            id,
            journal,
            Arc::clone(&streams),
            &core,
            Arc::clone(self.metrics.kernels()),
            self.traces.clone(),
        );
        let kernel = Arc::new(SessionKernel::new(
            session,
            cull_timeout,
            lease,
            handle,
            Arc::clone(&self.credentials),
        ));
        *kernel.permit.lock() = permit;
        self.serve_network(&kernel, &streams);
        let actor = Actor {
            core,
            handle: Arc::clone(kernel.handle()),
            mailboxes,
            arrivals,
            link_kernel: LINK_KERNEL,
            host: Box::new(self.host(&kernel, share, socket)),
            sandbox_exit,
            stop: self.stopping.actors_end.child_token(),
            done,
            wants: self.starts.wants.clone(),
            adoption_deadline,
            epoch,
            started: self.times.zero,
            time: self.config.clock.clone(),
            journal_times: self.metrics.journal().clone(),
        };
        self.stopping.actors.spawn(actor.run());
        kernel
    }

    /// Owner of a kernel in this sandbox, for its actor.
    pub(super) fn host(&self, kernel: &Arc<SessionKernel>, share: Share, socket: String) -> Teardown {
        Teardown::new(
            Arc::clone(kernel),
            share,
            socket,
            self.store.clone(),
            Arc::clone(&self.registry),
            Arc::clone(&self.ended),
            Arc::clone(&self.usage.meter),
        )
    }
}
