//! What principals take of what there is for all of them.

use crate::access::Object;
use himalia_budget::{BudgetUse, work};
use himalia_model::{Action, EngineError, Principal};
use himalia_session::Room;

use super::Commands;
use crate::access::authorise;

impl Commands {
    pub(crate) async fn answer_in_turn<T>(
        &self,
        principal: &Principal,
        bytes: usize,
        make: impl FnOnce() -> T,
    ) -> Result<T, EngineError> {
        let _turn = self.inner.budget.turn_for_answer(principal, bytes).await?;
        Ok(work(bytes, make))
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
