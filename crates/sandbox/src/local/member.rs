//! One sandbox that this gateway process watches until its end.

use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_proc::with_long_slice;
use parking_lot::Mutex;
use tokio::sync::watch::Sender;

use super::config::LocalConfig;
use super::hunt::{Hunt, Survivors};
use super::noted::Record;
use crate::host::layout::Layout;
use crate::host::log::log_tail;
use crate::host::proc::{Process, ProcessId};
use crate::host::{short, watch};
use crate::{ExitCause, SandboxError, SandboxExit, SandboxId};

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: SandboxId,
    pub(super) shim: ProcessId,
    pub(super) record: Mutex<Record>,
    pub(super) exit: Sender<Option<SandboxExit>>,
    pub(super) stopping: AtomicBool,
    /// The files are being removed; set and read under the lock of `record`, which is not written any more then.
    ended: AtomicBool,
}

impl Member {
    pub(super) fn new(record: Record, shim: ProcessId) -> Arc<Self> {
        Arc::new(Self {
            id: record.id,
            shim,
            record: Mutex::new(record),
            exit: Sender::new(None),
            stopping: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// Adds a process to the record; `false` if that is full or the sandbox has ended.
    pub(super) fn note(&self, process: &Process, layout: &Layout) -> Result<bool, SandboxError> {
        let mut record = self.record.lock();
        if self.ended.load(Ordering::Acquire) || !record.details.note(process) {
            return Ok(false);
        }
        record.write(&layout.record(self.id))?;
        Ok(true)
    }

    /// Waits until the shim has ended; `child` if it is ours, and then it is reaped.
    pub(super) async fn shim_ended(&self, mut child: Option<Child>, layout: &Layout) -> ExitCause {
        watch::until(self.shim, &layout.log(self.id), || self.look(child.as_mut())).await
    }

    fn look(&self, child: Option<&mut Child>) -> Option<ExitCause> {
        match child.map(Child::try_wait) {
            Some(Ok(status)) => status.map(cause),
            // It was reaped elsewhere, or it is not our child.
            Some(Err(_)) | None => self.shim.find().is_none().then_some(ExitCause::Lost),
        }
    }

    /// Ends what the shim left and removes the files. Blocks.
    pub(super) fn clean(&self, cause: ExitCause, config: &LocalConfig, layout: &Layout) -> SandboxExit {
        let record = {
            let record = self.record.lock();
            self.ended.store(true, Ordering::Release);
            record.clone()
        };
        // The search of `/proc` takes a processor for some milliseconds.
        let leftovers = with_long_slice(|| clean(&record, config, layout));
        SandboxExit {
            cause,
            requested: self.stopping.load(Ordering::Acquire),
            leftovers: leftovers.0,
            log_tail: leftovers.1,
        }
    }
}

/// Kills what is left of a sandbox and removes its files; gives back the number of processes and the end of the log.
/// If processes remain, so do the files, for a later sweep.
pub(super) fn clean(record: &Record, config: &LocalConfig, layout: &Layout) -> (usize, String) {
    let tail = log_tail(&layout.log(record.id));
    let killed = if record.is_of_this_boot() {
        Hunt::new(record, &config.shim, &layout.gateway_dir(record.id)).kill()
    } else {
        Ok(0)
    };
    match killed {
        Ok(killed) => {
            if let Err(error) = layout.remove(record.id) {
                tracing::warn!(sandbox = %short(record.id), %error, "files of a sandbox remain");
            }
            (killed, tail)
        }
        Err(Survivors(count)) => {
            tracing::error!(sandbox = %short(record.id), count, "processes of a sandbox survive SIGKILL");
            (count, tail)
        }
    }
}

fn cause(status: ExitStatus) -> ExitCause {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCause::Exited(code),
        (None, Some(signal)) => ExitCause::Signaled(signal),
        (None, None) => ExitCause::Lost,
    }
}
