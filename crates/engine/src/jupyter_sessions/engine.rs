//! The engine's kernels, for its sessions.

use himalia_model::{EngineError, KernelId, KernelModel, Principal, StartSession};

use super::Kernels;
use crate::api::Commands;

impl Kernels for Commands {
    fn kernel(&self, principal: &Principal, id: KernelId) -> Result<KernelModel, EngineError> {
        Commands::kernel(self, principal, id)
    }

    async fn start(
        &self,
        principal: &Principal,
        mut start: StartSession,
    ) -> Result<KernelModel, EngineError> {
        // An id that leads to no kernel is not taken over, as in Jupyter. For the operator it is.
        if !principal.is_operator() {
            start.id = None;
        }
        self.start_kernel(principal, start).await
    }

    async fn shutdown(&self, principal: &Principal, id: KernelId) -> Result<(), EngineError> {
        self.release_kernel(principal, id).await
    }
}
