//! The last step of a start: the kernel's process.

use std::sync::Arc;

use himalia_kernel::{Answer, Command, CommandError};
use himalia_model::EngineError;
use himalia_shim_protocol::KernelSpec as ShimKernelSpec;
use tokio::time::timeout;

use crate::{SessionKernel, SessionManager};

impl SessionManager {
    /// Starts the kernel's first process. If that fails, the kernel is gone when this returns.
    pub(super) async fn first_process(
        &self,
        handle: &Arc<SessionKernel>,
        spec: ShimKernelSpec,
    ) -> Result<(), EngineError> {
        let started = self.order_process(handle, Command::Start(Box::new(spec))).await;
        let failure = match started {
            Ok(Some(Ok(_))) => match Box::pin(self.put_certificates(handle)).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            Ok(Some(Err(CommandError::StartFailed { reason, stderr }))) => EngineError::KernelStart {
                cause: reason,
                stderr_tail: stderr,
            },
            Ok(Some(Err(other))) => EngineError::KernelStart {
                cause: other.to_string(),
                stderr_tail: String::new(),
            },
            Ok(None) => EngineError::unavailable("the kernel ended while it was started"),
            Err(late) => late,
        };
        handle.order(Command::Stop("start_failed")).await;
        handle.gone().await;
        Err(failure)
    }

    /// Gives a kernel a command that starts a process, and waits for its answer as long as a start may take
    /// ([`EngineError::Timeout`]). `None`: the kernel has ended.
    pub(super) async fn order_process(
        &self,
        handle: &SessionKernel,
        command: Command,
    ) -> Result<Option<Result<Answer, CommandError>>, EngineError> {
        let limit = self.config.start_timeout;
        timeout(limit, handle.order(command))
            .await
            .map_err(|_| EngineError::Timeout {
                what: "the start of the kernel",
                seconds: limit.as_secs(),
            })
    }
}
