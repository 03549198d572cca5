//! Provisioners for unit tests.

use std::time::Duration;

use himalia_sandbox::{
    BoxFuture, Isolation, LimitReport, Provisioner, SandboxError, SandboxExit, SandboxHandle, SandboxId,
    SandboxInfo, SandboxSpec,
};

/// Has a kind and a level, and makes nothing.
#[derive(Debug)]
pub(crate) struct StubProvisioner {
    kind: &'static str,
    isolation: Isolation,
}

impl StubProvisioner {
    pub(crate) fn new(kind: &'static str, isolation: Isolation) -> Self {
        Self { kind, isolation }
    }
}

fn closed<T: Send + 'static>() -> BoxFuture<'static, Result<T, SandboxError>> {
    Box::pin(async { Err(SandboxError::Closed) })
}

impl Provisioner for StubProvisioner {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn limits(&self) -> LimitReport {
        LimitReport::default()
    }

    fn start(&self, _: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        closed()
    }

    fn adopt(&self, _: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        closed()
    }

    fn stop(&self, _: SandboxId, _: Duration) -> BoxFuture<'_, Result<SandboxExit, SandboxError>> {
        closed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<SandboxInfo>, SandboxError>> {
        closed()
    }

    fn inspect(&self, _: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        closed()
    }

    fn note_process(&self, _: SandboxId, _: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        closed()
    }

    fn sweep(&self, _: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        closed()
    }
}
