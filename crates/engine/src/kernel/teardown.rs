//! The outside of a kernel as its actor needs it: its sandbox and its row in the store.

use std::sync::Arc;
use std::time::Duration;

use himalia_sandbox::{Provisioner, SandboxId};
use himalia_store::{KernelLife, Store};
use tokio::sync::OwnedSemaphorePermit;

use super::handle::Handle;
use crate::KernelId;
use crate::registry::Registry;

/// What is left to do when a kernel ends.
#[derive(Debug)]
pub(crate) struct Teardown {
    pub(crate) id: KernelId,
    /// The kernel's number on its link.
    pub(crate) kernel: u16,
    pub(crate) sandbox_id: SandboxId,
    pub(crate) provisioner: Arc<dyn Provisioner>,
    pub(crate) store: Store,
    pub(crate) registry: Arc<Registry>,
    /// The kernel's place under the limit.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl Teardown {
    /// A process runs: it is noted where a later gateway looks, and for whoever has to kill it.
    pub(crate) fn process_started(&self, pid: i32, incarnation: u32) {
        let (store, provisioner, id, sandbox) = (
            self.store.clone(),
            Arc::clone(&self.provisioner),
            self.id,
            self.sandbox_id,
        );
        tokio::spawn(async move {
            if let Err(error) = store
                .set_kernel_life(id.0, KernelLife::Live, incarnation, None)
                .await
            {
                tracing::error!(kernel = %id, %error, "cannot note a kernel's start");
            }
            if let Ok(pid) = u32::try_from(pid)
                && let Err(error) = provisioner.note_process(sandbox, pid).await
            {
                tracing::debug!(kernel = %id, %error, "cannot note a kernel's process");
            }
        });
    }

    /// Ends the sandbox and removes what is left; with `forget` also the kernel itself, otherwise it stays listed as
    /// dead.
    pub(crate) async fn run(&mut self, handle: &Arc<Handle>, forget: bool) {
        match self.provisioner.stop(self.sandbox_id, Duration::ZERO).await {
            Ok(_) | Err(himalia_sandbox::SandboxError::NotFound(_)) => {}
            Err(error) => tracing::error!(kernel = %self.id, %error, "cannot end a sandbox"),
        }
        let noted = if forget {
            handle.forget_log();
            let deleted = self.store.delete_kernel(self.id.0).await.map(drop);
            // Its id is free from here on.
            self.registry.remove(self.id);
            deleted
        } else {
            let (incarnation, reason) = {
                let snapshot = handle.snapshot.borrow();
                (snapshot.incarnation, snapshot.reason.clone())
            };
            self.store
                .set_kernel_life(self.id.0, KernelLife::Dead, incarnation, reason)
                .await
                .map(drop)
        };
        if let Err(error) = noted {
            tracing::error!(kernel = %self.id, %error, "cannot note a kernel's end");
        }
        self.permit = None;
    }
}
