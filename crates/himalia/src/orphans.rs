//! Gives every sandbox the configured time to live without a gateway.

use std::time::Duration;

use himalia_sandbox::{
    BoxFuture, Isolation, LimitReport, Provisioner, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    SandboxInfo, SandboxSpec,
};

/// A provisioner whose sandboxes end `ttl` after their last gateway, unless their spec says otherwise.
#[derive(Debug)]
pub(crate) struct OrphanTtl<P> {
    pub(crate) inner: P,
    pub(crate) ttl: Duration,
}

impl<P: Provisioner> Provisioner for OrphanTtl<P> {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn isolation(&self) -> Isolation {
        self.inner.isolation()
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

    fn sweep(&self, keep: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        self.inner.sweep(keep)
    }
}
