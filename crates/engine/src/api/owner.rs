//! Which replica of the gateway has a session.

use himalia_model::{Action, EngineError, KernelId, Object, Principal, SessionOwner};

use super::Engine;

impl Engine {
    /// Which replica has the session or kernel of this id; `None` where the principal sees none. With one replica it is
    /// always this one.
    pub async fn session_owner(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<Option<SessionOwner>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        if self.seen(principal, id).is_some() {
            return Ok(Some(SessionOwner::Here));
        }
        let store = self.inner.store();
        let failed = |error| EngineError::internal("cannot find out who has a session", error);
        let row = store.kernel(id.0).await.map_err(failed)?;
        if !row.is_some_and(|row| principal.sees(&row.owner)) {
            return Ok(None);
        }
        let owner = store.owner(id.0).await.map_err(failed)?;
        let elsewhere = owner.filter(|owner| owner.replica != store.replica());
        Ok(elsewhere.map(|owner| SessionOwner::Replica(owner.replica)))
    }
}
