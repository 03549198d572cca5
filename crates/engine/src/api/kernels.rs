//! Commands on kernels.

use std::sync::Arc;

use crate::access::Object;
use himalia_executions::{
    Attach, Attachment, Connection, EventFeed, Feed, LogReader, Reader, Requests, start_position,
};
use himalia_kernel::{Answer, Command, CommandError, owner_of_client};
use himalia_model::{Action, EngineError, KernelId, KernelModel, Origin, Principal, StartSession};
use himalia_session::SessionKernel;
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Commands;
use super::ended::SessionLog;

/// Bytes of a wire session's name.
const WIRE_SESSION_BYTES: usize = 256;

impl Commands {
    pub(crate) fn kernels(&self, principal: &Principal) -> Result<Vec<KernelModel>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let all = self.inner.registry.all();
        Ok(all
            .iter()
            .filter(|handle| !handle.is_over() && principal.sees(&handle.session().owner))
            .map(|handle| handle.model())
            .collect())
    }

    pub(crate) fn kernel(&self, principal: &Principal, id: KernelId) -> Result<KernelModel, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        Ok(self.handle(principal, id)?.model())
    }

    pub(crate) async fn start_kernel(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> Result<KernelModel, EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let handle = self.inner.start_kernel(principal, start).await?;
        Ok(handle.model())
    }

    pub(crate) async fn shutdown_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Kernel(id))?;
        // Also one that is ending already: a repeated request waits for the same end.
        let handle = self.seen(principal, id);
        let handle = handle.ok_or_else(|| self.inner.ended.absent(principal, id))?;
        handle.order(Command::Stop("killed_by_user")).await;
        handle.gone().await;
        Ok(())
    }

    pub(crate) async fn release_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        let native = |handle: &Arc<SessionKernel>| handle.session().origin == Origin::V1 && !handle.is_over();
        if self.seen(principal, id).is_some_and(|handle| native(&handle)) {
            return Ok(());
        }
        self.shutdown_kernel(principal, id).await
    }

    pub(crate) async fn interrupt_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Interrupt, Object::Kernel(id))?;
        let handle = self.handle(principal, id)?;
        let limit = self.inner.config.ready_timeout;
        let ordered = timeout(limit, handle.order(Command::Interrupt)).await;
        let late = EngineError::Timeout {
            what: "the kernel's start",
            seconds: limit.as_secs(),
        };
        self.answer(&handle, ordered.map_err(|_| late)?)
    }

    pub(crate) async fn restart_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<KernelModel, EngineError> {
        self.allow(principal, Action::Restart, Object::Kernel(id))?;
        let handle = self.handle(principal, id)?;
        if handle.is_lost() && handle.session().outlives_sandbox() {
            self.inner.resume(&handle, None).await?;
            return Ok(handle.model());
        }
        self.inner.budget.start(principal)?;
        let turn = self.inner.turn_to_start(principal).await?;
        let limit = self.inner.config.start_timeout + self.inner.config.shutdown_grace;
        let ordered = timeout(limit, handle.order(Command::Restart)).await;
        let late = EngineError::Timeout {
            what: "the restart",
            seconds: limit.as_secs(),
        };
        self.answer(&handle, ordered.map_err(|_| late)?)?;
        self.inner.until_up(&handle, turn);
        Ok(handle.model())
    }

    pub(crate) async fn attach(
        &self,
        principal: &Principal,
        id: KernelId,
        attach: Attach,
    ) -> Result<Attachment, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(id))?;
        self.inner.check_open()?;
        if attach.wire_session.is_empty() || attach.wire_session.len() > WIRE_SESSION_BYTES {
            let reason = format!("must have 1 to {WIRE_SESSION_BYTES} bytes");
            return Err(EngineError::bad_request("session_id", reason));
        }
        let handle = self.handle(principal, id)?;
        let held = self.inner.budget.stream(principal)?;
        let owner = owner_of(principal, &attach.wire_session);
        let connection = Connection::open(Arc::clone(handle.handle()), owner).await;
        // The position is taken before the wait, so that nothing of the start is missed by who was there.
        let position = start_position(&handle, owner, attach.after);
        let mut snapshot = handle.snapshot.clone();
        let usable = snapshot.wait_for(|now| now.ready || now.state == himalia_model::ExecutionState::Dead);
        let replaced = connection.replaced();
        tokio::select! {
            // Late or over: the client will see for itself.
            _ = timeout(self.inner.config.ready_timeout, usable) => {}
            // A newer connection waits for this one to go.
            () = replaced.cancelled() => {}
        }
        if handle.is_over() {
            return Err(self.inner.over(&handle));
        }
        let reader = Reader::new(
            Arc::clone(handle.handle()),
            position,
            self.inner.draining.clone(),
            replaced,
        );
        Ok(Attachment {
            requests: Requests::new(
                Arc::clone(handle.handle()),
                owner,
                principal.trace(),
                self.inner.budget.cpu(&handle.session().owner).cloned(),
                Arc::clone(&connection),
            ),
            feed: Feed::new(reader, owner, connection, held),
        })
    }

    pub(crate) fn events(
        &self,
        principal: &Principal,
        id: KernelId,
        after: Option<u64>,
    ) -> Result<EventFeed, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        let log = self.log(principal, id)?;
        let pace = self.inner.budget.paced_stream(principal)?;
        let after = after.unwrap_or_else(|| log.journal().head());
        Ok(match &log {
            SessionLog::Live(handle) => {
                let (draining, replaced) = (self.inner.draining.clone(), CancellationToken::new());
                let incarnation = handle.snapshot.borrow().incarnation;
                EventFeed::new(
                    LogReader::new(handle.handle(), after, draining, replaced),
                    incarnation,
                    pace,
                )
            }
            SessionLog::Ended(journal, ended) => {
                EventFeed::new(LogReader::of_ended(journal, after), ended.incarnation, pace)
            }
        })
    }

    /// A kernel that has not ended. Commands find kernels by this, [`Engine::seen`] and [`Engine::log`] alone, so one of another
    /// tenant is for all of them as an unknown one. [`EngineError::SessionEnded`], [`EngineError::Removed`] for an ended session.
    pub(super) fn handle(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        match self.seen(principal, id) {
            Some(handle) if !handle.is_over() => Ok(handle),
            Some(handle) => Err(self.inner.over(&handle)),
            None => Err(self.inner.ended.absent(principal, id)),
        }
    }

    /// A kernel that has not ended, in a new sandbox if its own is gone and it outlives that. [`EngineError::Forbidden`] for a principal
    /// that changes nothing: a start is a change.
    pub(super) async fn with_sandbox(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let handle = self.handle(principal, id)?;
        if handle.is_lost() && handle.session().outlives_sandbox() {
            if principal.is_read_only() {
                return Err(EngineError::Forbidden {
                    action: "start another sandbox for this session, whose own is gone",
                });
            }
            self.inner.resume(&handle, None).await?;
        }
        Ok(handle)
    }

    /// A kernel of those that the principal sees, one that is over included.
    pub(crate) fn seen(&self, principal: &Principal, id: KernelId) -> Option<Arc<SessionKernel>> {
        let handle = self.inner.registry.get(id);
        handle.filter(|handle| principal.sees(&handle.session().owner))
    }

    /// An order's answer in the caller's terms.
    fn answer(
        &self,
        handle: &SessionKernel,
        ordered: Option<Result<Answer, CommandError>>,
    ) -> Result<(), EngineError> {
        match ordered {
            Some(Ok(_)) => Ok(()),
            None => Err(self.inner.over(handle)),
            Some(Err(CommandError::StartFailed { reason, stderr })) => Err(EngineError::KernelStart {
                cause: reason,
                stderr_tail: stderr,
            }),
            Some(Err(CommandError::NotRunning)) => Err(EngineError::Conflict {
                reason: "the kernel has no process".into(),
            }),
            Some(Err(other)) => Err(EngineError::unavailable(other.to_string())),
        }
    }
}

/// Whose a request is: a hash of principal and wire session.
fn owner_of(principal: &Principal, wire_session: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update((principal.name().len() as u64).to_le_bytes());
    hash.update(principal.name());
    hash.update(wire_session);
    let digest: [u8; 32] = hash.finalize().into();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    owner_of_client(u64::from_le_bytes(first))
}
