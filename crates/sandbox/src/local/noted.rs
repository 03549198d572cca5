//! The fields that the record of a local sandbox has in addition to those of every record.

use serde::{Deserialize, Serialize};

use crate::host::proc::{Process, ProcessId};

/// Processes that are remembered per sandbox. Dead ones make room for new ones.
pub(super) const MAX_NOTED: usize = 64;

/// The record of a sandbox of plain processes.
pub(super) type Record = crate::host::record::Record<Details>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Details {
    /// The kernels that the shim reported.
    pub(super) noted: Vec<NotedProcess>,
}

/// A process below the shim, with the ids that its children inherit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct NotedProcess {
    pub(super) process: ProcessId,
    pub(super) session: i32,
    pub(super) group: i32,
}

impl Details {
    /// Adds a process; `false` when there are [`MAX_NOTED`] living ones already.
    pub(super) fn note(&mut self, process: &Process) -> bool {
        if self.noted.iter().any(|noted| noted.process == process.id) {
            return true;
        }
        if self.noted.len() >= MAX_NOTED {
            self.noted.retain(|noted| noted.process.find().is_some());
        }
        if self.noted.len() >= MAX_NOTED {
            return false;
        }
        self.noted.push(NotedProcess {
            process: process.id,
            session: process.session,
            group: process.group,
        });
        true
    }
}
