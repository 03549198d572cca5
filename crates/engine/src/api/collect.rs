//! Removing what is not kept any longer.

use himalia_model::{Action, Collected, EngineError, Object, Principal};
use himalia_session::WHOLE;

use super::Engine;

impl Engine {
    /// Removes what is left of sessions that are over for too long, and what belongs to no session, and gives the room in the
    /// database back; with `dry_run` it only says what that is. The gateway does the same by itself every ten minutes, a
    /// part each time. At most 10,000 sessions and as many orphans: [`Collected::more`].
    pub async fn collect(&self, principal: &Principal, dry_run: bool) -> Result<Collected, EngineError> {
        self.allow(principal, Action::Delete, Object::Upkeep)?;
        self.inner.check_open()?;
        self.inner.collect(dry_run, WHOLE).await
    }
}
