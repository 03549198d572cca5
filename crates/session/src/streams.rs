//! Streams that sandboxes open for tasks: transfers of files, and commands.

use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, CommandError, Phase};
use himalia_link::StreamConnection;
use himalia_model::{EngineError, FileError};
use himalia_shim_protocol::{Open, RunProcess, StreamTask};
use tokio::time::timeout;

use crate::{MAX_PROCESSES, Process, SessionKernel, SessionManager};

/// Time for a sandbox to begin a task. Orders that wait for their sandbox wait as long.
const OPEN_TIME: Duration = Duration::from_secs(25);
/// Error after that time.
const LATE: EngineError = EngineError::Timeout {
    what: "the sandbox's answer",
    seconds: OPEN_TIME.as_secs(),
};

impl SessionManager {
    /// Has a sandbox open a stream. `absolute`: paths that begin with `/` are those of the sandbox ([`Open::absolute`]).
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] for a sandbox whose protocol has no streams; [`EngineError::KernelDead`] for one that is gone.
    pub async fn open_stream(
        &self,
        handle: &SessionKernel,
        task: StreamTask,
        absolute: bool,
    ) -> Result<StreamConnection, EngineError> {
        let expected = handle.streams.expect();
        let open = Open {
            stream: expected.name().to_owned(),
            task,
            absolute,
        };
        let opened = timeout(OPEN_TIME, async {
            match handle.order(Command::Open(Box::new(open))).await {
                Some(Ok(_)) => Ok(expected.arrival().await),
                Some(Err(error)) => Err(self.not_opened(handle, &error)),
                None => Err(self.over(handle)),
            }
        });
        let stream = opened.await.unwrap_or(Err(LATE))?;
        stream.ok_or_else(|| self.over(handle))
    }

    /// Runs a command in the sandbox of a session; waits until its program runs.
    ///
    /// # Errors
    /// [`EngineError::Files`]: it cannot be run, or as many commands as may ([`MAX_PROCESSES`]) run.
    pub async fn start_process(
        &self,
        handle: &SessionKernel,
        wanted: RunProcess,
    ) -> Result<Process, EngineError> {
        let permit = Arc::clone(handle.lease().processes()).try_acquire_owned();
        let permit = permit.map_err(|_| EngineError::Files {
            code: FileError::TooMany,
            reason: format!("{MAX_PROCESSES} commands run in this sandbox, as many as may"),
        })?;
        let has_terminal = wanted.terminal.is_some();
        let stream = self
            .open_stream(handle, StreamTask::Run(Box::new(wanted)), false)
            .await?;
        let begun = timeout(OPEN_TIME, Process::begin(stream, has_terminal, permit)).await;
        begun.unwrap_or(Err(LATE))
    }

    fn not_opened(&self, handle: &SessionKernel, error: &CommandError) -> EngineError {
        let (phase, reason) = {
            let snapshot = handle.snapshot.borrow();
            (snapshot.phase, snapshot.reason.clone())
        };
        match error {
            CommandError::Unsupported(reason) => EngineError::Unsupported {
                reason: reason.clone(),
            },
            CommandError::NotRunning if phase == Phase::Dead => EngineError::KernelDead {
                cause: reason.unwrap_or_default(),
            },
            CommandError::NotRunning => self.over(handle),
            other => EngineError::unavailable(other.to_string()),
        }
    }
}
