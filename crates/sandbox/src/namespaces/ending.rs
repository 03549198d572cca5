//! Ends sandboxes from outside, and removes what they leave.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::record::Record;
use crate::host::layout::Layout;
use crate::host::proc::{Process, ProcessId, has_variable};
use crate::host::{MARK_VARIABLE, short};
use crate::{SandboxError, SandboxId};

/// Longest time from SIGKILL to the end of the processes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(4);

/// Kills a sandbox that no task watches, and waits for its end. Blocks for at most 10 s.
pub(super) fn kill(record: &Record) -> Result<(), SandboxError> {
    if !record.is_of_this_boot() {
        return Ok(());
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left: Vec<ProcessId> = match record.shim {
            Some(init) => init.find().map(|process| process.id).into_iter().collect(),
            None => marked(&record.mark),
        };
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(SandboxError::Unkillable(record.id));
        }
        for process in left {
            if let Err(error) = process.signal(Signal::KILL) {
                tracing::warn!(pid = process.pid, %error, "cannot kill a process of a sandbox");
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Processes of a sandbox whose first one was never written down: it and what starts it carry the mark.
fn marked(mark: &str) -> Vec<ProcessId> {
    let variable = format!("{MARK_VARIABLE}={mark}");
    let all = Process::all().unwrap_or_default();
    all.iter()
        .filter(|process| !process.ended && has_variable(&process.environment(), &variable))
        .map(|process| process.id)
        .collect()
}

/// Removes groups and files of a sandbox whose processes are gone; if a group cannot be removed, the record stays for a
/// later sweep. Blocks.
pub(super) fn remove(record: &Record, layout: &Layout) -> Result<(), SandboxError> {
    record.details.groups.remove()?;
    layout.remove(record.id)
}

/// [`remove`], with a warning where it fails.
pub(super) fn remove_or_warn(record: &Record, layout: &Layout) {
    if let Err(error) = remove(record, layout) {
        tracing::warn!(sandbox = %short(record.id), %error, "something of a sandbox remains");
    }
}

/// The record, or for files without one a record that names nothing.
pub(super) fn read_or_blank(id: SandboxId, layout: &Layout) -> Record {
    Record::read(&layout.record(id), id).unwrap_or_else(|| {
        let mut blank = Record::new(
            id,
            id.to_string(),
            std::collections::BTreeMap::new(),
            super::record::Details::default(),
        );
        // No process has such a mark; so none is searched for.
        blank.boot = String::new();
        blank
    })
}
