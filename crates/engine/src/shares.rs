//! Shares of principals outside of commands: requests, connections, memory and turns of facades, and characters that models receive.

use std::sync::Arc;

use himalia_budget::HeldShare;
use himalia_executions::ExecutionId;
use himalia_kernel::Command;
use himalia_model::{EngineError, KernelId, Principal};

use crate::Engine;

/// The subject of an answer to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A kernel of a session.
    Kernel(KernelId),
    /// An execution.
    Execution(ExecutionId),
}

impl Engine {
    /// One more request of a principal. [`EngineError::OverBudget`] when its tenant sends more than it may.
    pub fn count_request(&self, principal: &Principal) -> Result<(), EngineError> {
        self.commands.inner.budget.request(principal)
    }

    /// Checks that characters may be returned to a principal's model today. [`EngineError::QuotaExceeded`].
    pub fn may_return(&self, principal: &Principal) -> Result<(), EngineError> {
        self.commands.inner.may_return(principal)
    }

    /// So many characters were returned to a principal's model. They count for the session and the execution that they are about, too.
    pub async fn returned(&self, principal: &Principal, about: Option<About>, chars: u64) {
        self.commands.inner.returned(principal, chars);
        let (kernel, execution) = match about {
            None => return,
            Some(About::Kernel(id)) => (id, None),
            Some(About::Execution(id)) => (id.kernel, Some(id.seq)),
        };
        // One that ends meanwhile needs no count any more.
        if let Some(handle) = self.commands.seen(principal, kernel) {
            let note = Command::NoteReturned { execution, chars };
            let _ = handle.order(note).await;
        }
    }

    /// Characters that were returned to models about an execution so far; `None` where that is not known: of a session that has ended,
    /// and of an execution before the latest thousand that something was returned about.
    pub fn returned_about(&self, principal: &Principal, id: ExecutionId) -> Option<u64> {
        let handle = self.commands.seen(principal, id.kernel)?;
        let returned = Arc::clone(&handle.snapshot.borrow().returned);
        returned.about(id.seq).filter(|_| !handle.is_over())
    }

    /// To be awaited before a principal receives an error that [`EngineError::is_limit`]: 200 ms for a tenant.
    pub async fn hold_back(&self, principal: &Principal) {
        self.commands.inner.budget.hold_back(principal).await;
    }

    /// Connections that clients may have at once.
    pub fn max_connections(&self) -> usize {
        usize::try_from(self.commands.inner.config.max_connections).unwrap_or(usize::MAX)
    }

    /// A connection of a principal, until the guard is dropped. [`EngineError::OverBudget`].
    pub fn hold_connection(&self, principal: &Principal) -> Result<HeldShare, EngineError> {
        self.commands.inner.budget.connection(principal)
    }

    /// Memory for an answer of about so many bytes, until the guard is dropped. [`EngineError::OverBudget`].
    pub fn hold_memory(&self, principal: &Principal, bytes: u64) -> Result<HeldShare, EngineError> {
        self.commands.inner.budget.memory(principal, bytes)
    }

    /// A place among the clients of events of the principal's owner. [`EngineError::OverBudget`].
    pub fn hold_stream(&self, principal: &Principal) -> Result<HeldShare, EngineError> {
        self.commands.inner.budget.stream(principal)
    }

    /// Makes an answer of about so many bytes; one that is large is made in a turn of the principal's. Waits for that at most
    /// 30 s: [`EngineError::Busy`]. [`EngineError::OverBudget`] where too much of the same tenant waits already.
    pub async fn answer_in_turn<T>(
        &self,
        principal: &Principal,
        bytes: usize,
        make: impl FnOnce() -> T,
    ) -> Result<T, EngineError> {
        self.commands.answer_in_turn(principal, bytes, make).await
    }
}
