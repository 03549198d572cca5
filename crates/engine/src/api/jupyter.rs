//! Commands on Jupyter sessions, and queries on kernelspecs.

use crate::access::Object;
use himalia_kernelspecs::to_tenant;
use himalia_model::{
    Action, EngineError, JupyterSessionId, KernelSpec, KernelSpecs, NewSession, Principal, SessionModel,
    SessionPatch, SpecFile,
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

    pub(crate) async fn kernelspecs(&self, principal: &Principal) -> Result<KernelSpecs, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(None))?;
        let mut all = self.inner.catalog.list().await?.as_ref().clone();
        if !principal.is_operator() {
            let shown = all.specs.into_iter().map(|(name, spec)| (name, to_tenant(spec)));
            all.specs = shown.collect();
        }
        Ok(all)
    }

    pub(crate) async fn kernelspec(
        &self,
        principal: &Principal,
        name: &str,
    ) -> Result<KernelSpec, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(Some(name)))?;
        let spec = self.inner.catalog.get(name).await?;
        Ok(if principal.is_operator() {
            spec
        } else {
            to_tenant(spec)
        })
    }

    pub(crate) async fn kernelspec_file(
        &self,
        principal: &Principal,
        name: &str,
        file: &str,
    ) -> Result<SpecFile, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(Some(name)))?;
        self.inner.catalog.file(name, file).await
    }
}
