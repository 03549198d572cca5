//! Removing what is not kept any longer.

use himalia_model::{Action, Collected, EngineError, Object, Principal};
use himalia_session::WHOLE;

use super::Commands;

impl Commands {
    pub(crate) async fn collect(
        &self,
        principal: &Principal,
        dry_run: bool,
    ) -> Result<Collected, EngineError> {
        self.allow(principal, Action::Delete, Object::Upkeep)?;
        self.inner.check_open()?;
        self.inner.collect(dry_run, WHOLE).await
    }
}
