//! Sessions with the sandboxes that they run in, branches, templates and pools.

use super::Engine;
use crate::pool::Pool;
use crate::{
    Action, Branch, EngineError, ForkKernel, KernelId, Object, PoolStatus, Principal, ProvisionerInfo,
    SessionInfo, StartKernel, TemplateInfo,
};

impl Engine {
    /// Starts a kernel as [`Engine::start_kernel`] does, and tells what is around it.
    pub async fn start_session(
        &self,
        principal: &Principal,
        start: StartKernel,
    ) -> Result<SessionInfo, EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let handle = self.inner.start_kernel(principal, start).await?;
        Ok(handle.info())
    }

    /// Every kernel with what is around it, in order of their start; those that wait in a pool are nobody's and not
    /// listed.
    pub fn session_infos(&self, principal: &Principal) -> Result<Vec<SessionInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let all = self.inner.registry.all();
        Ok(all
            .iter()
            .filter(|handle| !handle.is_over())
            .map(|handle| handle.info())
            .collect())
    }

    /// One kernel with what is around it.
    pub fn session_info(&self, principal: &Principal, id: KernelId) -> Result<SessionInfo, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        Ok(self.handle(id)?.info())
    }

    /// Makes branches of a kernel, one after another: each has the parent's variables as of now, in a process of its own
    /// in the same sandbox. One result for each that was tried, in order; after a failure no further one is. If the caller
    /// goes away meanwhile they are ended again.
    ///
    /// # Errors
    /// When nothing was tried. With `atomic` also the failure of any branch; those before it are ended then.
    pub async fn fork_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
        fork: ForkKernel,
    ) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
        self.allow(principal, Action::Fork, Object::Kernel(id))?;
        self.allow(principal, Action::Create, Object::Kernels)?;
        let parent = self.handle(id)?;
        self.inner.fork_kernel(principal, parent, fork).await
    }

    /// Every template: those of the configuration, then one for each other kernelspec.
    pub async fn templates(&self, principal: &Principal) -> Result<Vec<TemplateInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(None))?;
        self.inner.templates.list(&self.inner.catalog).await
    }

    /// Every pool, by the names of their templates.
    pub fn pools(&self, principal: &Principal) -> Result<Vec<PoolStatus>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let pools = self.inner.pools.get();
        Ok(pools
            .into_iter()
            .flat_map(|pools| pools.values())
            .map(Pool::status)
            .collect())
    }

    /// Every provisioner, in order of preference.
    pub fn provisioners(&self, principal: &Principal) -> Result<Vec<ProvisionerInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        Ok(self.inner.provisioners.infos())
    }
}
