//! Queries on kernelspecs.

use himalia_kernelspecs::to_tenant;
use himalia_model::{Action, EngineError, KernelSpec, KernelSpecs, Object, Principal, SpecFile};

use super::Engine;

impl Engine {
    /// All kernelspecs, the broken ones with their problem. Only the operator sees their commands.
    pub async fn kernelspecs(&self, principal: &Principal) -> Result<KernelSpecs, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(None))?;
        let mut all = self.inner.catalog.list().await?.as_ref().clone();
        if !principal.is_operator() {
            let shown = all.specs.into_iter().map(|(name, spec)| (name, to_tenant(spec)));
            all.specs = shown.collect();
        }
        Ok(all)
    }

    /// One kernelspec, as [`Self::kernelspecs`] has it.
    pub async fn kernelspec(&self, principal: &Principal, name: &str) -> Result<KernelSpec, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(Some(name)))?;
        let spec = self.inner.catalog.get(name).await?;
        Ok(if principal.is_operator() {
            spec
        } else {
            to_tenant(spec)
        })
    }

    /// A file beside a `kernel.json` (logos, `kernel.js`). Plain names within the directory only.
    pub async fn kernelspec_file(
        &self,
        principal: &Principal,
        name: &str,
        file: &str,
    ) -> Result<SpecFile, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(Some(name)))?;
        self.inner.catalog.file(name, file).await
    }
}
