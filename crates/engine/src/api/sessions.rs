//! Commands on Jupyter sessions.

use himalia_model::{
    Action, EngineError, JupyterSessionId, NewSession, Object, Principal, SessionModel, SessionPatch,
};

use super::Engine;

impl Engine {
    /// All Jupyter sessions; those whose kernel is gone are dropped.
    pub async fn sessions(&self, principal: &Principal) -> Result<Vec<SessionModel>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        self.jupyter.list(self, principal).await
    }

    /// Makes a Jupyter session, or returns the one that has its path. Unknown kernelspec:
    /// [`EngineError::NoSuchKernelspec`].
    pub async fn create_session(
        &self,
        principal: &Principal,
        new: NewSession,
    ) -> Result<SessionModel, EngineError> {
        self.allow(principal, Action::Create, Object::JupyterSessions)?;
        self.jupyter.create(self, principal, new).await
    }

    /// One Jupyter session.
    pub async fn session(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<SessionModel, EngineError> {
        self.allow(principal, Action::Read, Object::JupyterSession(id))?;
        self.jupyter.get(self, principal, id).await
    }

    /// Changes a Jupyter session. A changed kernel shuts the old one down unless another session uses it.
    pub async fn patch_session(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
        patch: SessionPatch,
    ) -> Result<SessionModel, EngineError> {
        self.allow(principal, Action::Update, Object::JupyterSession(id))?;
        self.jupyter.patch(self, principal, id, patch).await
    }

    /// Deletes a Jupyter session and shuts its kernel down. [`EngineError::Gone`] if the kernel was deleted before.
    pub async fn delete_session(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::JupyterSession(id))?;
        self.jupyter.delete(self, principal, id).await
    }
}
