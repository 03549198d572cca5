//! Provisioners for unit tests.

use std::collections::HashMap;
use std::time::Duration;

use himalia_provisioner::{
    BoxFuture, Capabilities, Isolation, LimitReport, MeasuredBy, Provisioner, ProvisionerKind, RootFiles,
    SandboxError, SandboxExit, SandboxHandle, SandboxId, SandboxInfo, SandboxSpec,
};
use parking_lot::Mutex;

/// Has a level and what belongs to it, and makes nothing. What it measures is what it was given.
#[derive(Debug)]
pub(crate) struct StubProvisioner {
    kind: ProvisionerKind,
    capabilities: Capabilities,
    memory: Option<u64>,
    measured: Mutex<Vec<usize>>,
}

impl StubProvisioner {
    /// As the provisioner of this level has it.
    pub(crate) fn new(isolation: Isolation) -> Self {
        let (kind, root) = match isolation {
            Isolation::None => (ProvisionerKind::Local, RootFiles::Host),
            Isolation::Namespaces => (ProvisionerKind::Local, RootFiles::Built),
            _ => (ProvisionerKind::Docker, RootFiles::Image),
        };
        Self {
            kind,
            capabilities: Capabilities {
                isolation,
                root,
                networks: root == RootFiles::Image,
                proxy: root != RootFiles::Host,
                zygotes: root == RootFiles::Built,
                kept_files: true,
                mounts: &[],
                measured_by: MeasuredBy::Provisioner,
                oom_report_delay: Duration::ZERO,
            },
            memory: None,
            measured: Mutex::default(),
        }
    }

    /// With other capabilities.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Capabilities)) -> Self {
        change(&mut self.capabilities);
        self
    }

    /// Each of its sandboxes uses so many bytes.
    pub(crate) fn measuring(mut self, bytes: Option<u64>) -> Self {
        self.memory = bytes;
        self
    }

    /// Number of sandboxes in each measurement.
    pub(crate) fn measured(&self) -> Vec<usize> {
        self.measured.lock().clone()
    }
}

fn closed<T: Send + 'static>() -> BoxFuture<'static, Result<T, SandboxError>> {
    Box::pin(async { Err(SandboxError::Closed) })
}

impl Provisioner for StubProvisioner {
    fn kind(&self) -> ProvisionerKind {
        self.kind
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
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

    fn memory(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, u64>, SandboxError>> {
        self.measured.lock().push(ids.len());
        let used = ids.into_iter().filter_map(|id| Some((id, self.memory?)));
        let used = used.collect();
        Box::pin(async { Ok(used) })
    }

    fn note_process(&self, _: SandboxId, _: u32) -> BoxFuture<'_, Result<bool, SandboxError>> {
        closed()
    }

    fn sweep(&self, _: Vec<SandboxId>) -> BoxFuture<'_, Result<Vec<SandboxId>, SandboxError>> {
        closed()
    }
}
