//! What principals take of what there is for all of them.

use std::sync::Arc;

use himalia_budget::{BudgetUse, HeldShare, with_long_slice, work};
use himalia_executions::ExecutionId;
use himalia_journal::may_block;
use himalia_kernel::Command;
use himalia_model::{Action, EngineError, KernelId, Object, Principal};
use himalia_session::Room;

use super::Commands;
use crate::Engine;
use crate::access::authorise;

/// What an answer to a model is about.
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

    /// Whether characters may be returned to a principal's model today. [`EngineError::QuotaExceeded`].
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

impl Commands {
    /// As [`Engine::answer_in_turn`].
    pub(crate) async fn answer_in_turn<T>(
        &self,
        principal: &Principal,
        bytes: usize,
        make: impl FnOnce() -> T,
    ) -> Result<T, EngineError> {
        let _turn = self.inner.budget.turn_for_answer(principal, bytes).await?;
        Ok(work(bytes, make))
    }

    /// Does what takes a processor for a while in a turn of the principal, off the threads of asynchronous work.
    pub(in crate::api) async fn in_turn<T>(
        &self,
        principal: &Principal,
        work: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let _turn = self.inner.budget.turn(principal).await?;
        may_block(|| with_long_slice(work))
    }

    /// Room for so many bytes of an owner that are about to be stored, until the guard is dropped. [`EngineError::DiskFull`],
    /// [`EngineError::OverBudget`].
    pub(crate) async fn room(&self, owner: &str, bytes: usize) -> Result<Room, EngineError> {
        self.inner.room(owner, bytes as u64).await
    }

    pub(crate) fn budgets(&self, principal: &Principal) -> Result<Vec<BudgetUse>, EngineError> {
        authorise(principal, Action::Read, Object::Upkeep)?;
        Ok(self.inner.budget.uses())
    }
}
