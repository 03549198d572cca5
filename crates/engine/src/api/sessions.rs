//! Commands on Jupyter sessions.

use himalia_model::{
    Action, EngineError, JupyterSessionId, NewSession, Object, Principal, SessionModel, SessionPatch,
};

use super::Commands;

impl Commands {
    pub(crate) async fn sessions(&self, principal: &Principal) -> Result<Vec<SessionModel>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        self.jupyter.list(self, principal).await
    }

    pub(crate) async fn create_session(
        &self,
        principal: &Principal,
        new: NewSession,
    ) -> Result<SessionModel, EngineError> {
        self.allow(principal, Action::Create, Object::JupyterSessions)?;
        self.jupyter.create(self, principal, new).await
    }

    pub(crate) async fn session(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<SessionModel, EngineError> {
        self.allow(principal, Action::Read, Object::JupyterSession(id))?;
        self.jupyter.get(self, principal, id).await
    }

    pub(crate) async fn patch_session(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
        patch: SessionPatch,
    ) -> Result<SessionModel, EngineError> {
        self.allow(principal, Action::Update, Object::JupyterSession(id))?;
        self.jupyter.patch(self, principal, id, patch).await
    }

    pub(crate) async fn delete_session(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::JupyterSession(id))?;
        self.jupyter.delete(self, principal, id).await
    }
}
