//! Gives every sandbox the configured time to live without a gateway.

use std::sync::Arc;
use std::time::Duration;

use himalia_sandbox::{
    BoxFuture, Isolation, LimitReport, Provisioner, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    SandboxInfo, SandboxSpec,
};

/// A provisioner whose sandboxes end `ttl` after their last gateway, unless their spec says otherwise.
#[derive(Debug)]
pub(crate) struct OrphanTtl {
    pub(crate) inner: Arc<dyn Provisioner>,
    pub(crate) ttl: Duration,
}

impl Provisioner for OrphanTtl {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn isolation(&self) -> Isolation {
        self.inner.isolation()
    }

    fn isolation_of(&self, spec: &SandboxSpec) -> Result<Isolation, SandboxError> {
        self.inner.isolation_of(spec)
    }

    fn limits(&self) -> LimitReport {
        self.inner.limits()
    }

    fn start(&self, mut spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        spec.orphan_ttl.get_or_insert(self.ttl);
        self.inner.start(spec)
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        self.inner.adopt(id)
    }

    fn stop(&self, id: SandboxId, grace: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        self.inner.stop(id, grace)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        self.inner.list()
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        self.inner.inspect(id)
    }

    fn note_process(&self, id: SandboxId, pid: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        self.inner.note_process(id, pid)
    }

    fn oom_kills(&self, id: SandboxId) -> BoxFuture<'_, Result<u64, SandboxError>> {
        self.inner.oom_kills(id)
    }

    fn remove_files<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), SandboxError>> {
        self.inner.remove_files(name)
    }

    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        self.inner.sweep(keep)
    }
}
