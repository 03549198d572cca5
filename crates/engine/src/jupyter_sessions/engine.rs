//! The engine's kernels, for its sessions.

use super::Kernels;
use crate::model::{KernelModel, StartKernel};
use crate::{Engine, EngineError, KernelId, Principal};

impl Kernels for Engine {
    fn kernel(&self, principal: &Principal, id: KernelId) -> Result<KernelModel, EngineError> {
        Engine::kernel(self, principal, id)
    }

    async fn start(&self, principal: &Principal, start: StartKernel) -> Result<KernelModel, EngineError> {
        self.start_kernel(principal, start).await
    }

    async fn shutdown(&self, principal: &Principal, id: KernelId) -> Result<(), EngineError> {
        self.release_kernel(principal, id).await
    }
}
