//! Queries on kernelspecs.

use himalia_kernelspecs::to_tenant;
use himalia_model::{Action, EngineError, KernelSpec, KernelSpecs, Object, Principal, SpecFile};

use super::Commands;

impl Commands {
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
