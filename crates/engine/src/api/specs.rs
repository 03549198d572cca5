//! Queries on kernelspecs.

use super::Engine;
use crate::{Action, EngineError, KernelSpec, KernelSpecs, Object, Principal, SpecFile};

impl Engine {
    /// All kernelspecs, the broken ones with their problem.
    pub async fn kernelspecs(&self, principal: &Principal) -> Result<KernelSpecs, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(None))?;
        Ok(self.inner.catalog.list().await?.as_ref().clone())
    }

    /// One kernelspec.
    pub async fn kernelspec(&self, principal: &Principal, name: &str) -> Result<KernelSpec, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(Some(name)))?;
        self.inner.catalog.get(name).await
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
