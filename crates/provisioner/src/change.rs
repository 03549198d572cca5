//! Changes to the limits of a running sandbox.

use crate::{Limits, SandboxError};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitChange {
    /// Current limits of the sandbox.
    pub from: Limits,
    /// New limits of the sandbox.
    pub to: Limits,
    /// The runtime that it was started with, as [`crate::SandboxSpec::runtime`] has it.
    pub runtime: Option<String>,
}

/// A limit that a living sandbox cannot be given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FixedLimit {
    pub field: &'static str,
    /// Reason, to complete "the limit …".
    pub reason: &'static str,
}

/// A limit that is to be another one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ChangedLimit {
    pub field: &'static str,
    /// There is none yet.
    pub is_new: bool,
    /// There is to be none any more.
    pub is_dropped: bool,
}

impl LimitChange {
    /// Returns true if no limit changes.
    pub fn is_nothing(&self) -> bool {
        self.from == self.to
    }

    pub fn changed(&self) -> Vec<ChangedLimit> {
        let (from, to) = (&self.from, &self.to);
        [
            changed("memory_bytes", from.memory_bytes, to.memory_bytes),
            changed("pids", from.pids, to.pids),
            changed("cpu_millis", from.cpu_millis, to.cpu_millis),
            changed("disk_bytes", from.disk_bytes, to.disk_bytes),
            changed("tmp_bytes", from.tmp_bytes, to.tmp_bytes),
            changed("shm_bytes", from.shm_bytes, to.shm_bytes),
            changed("open_files", from.open_files, to.open_files),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The first change that `why` has a reason against.
    pub fn first_fixed(&self, why: impl Fn(&ChangedLimit) -> Option<&'static str>) -> Option<FixedLimit> {
        self.changed().iter().find_map(|changed| {
            why(changed).map(|reason| FixedLimit {
                field: changed.field,
                reason,
            })
        })
    }
}

impl FixedLimit {
    pub fn into_error(self) -> SandboxError {
        SandboxError::BadSpec {
            field: self.field,
            reason: self.reason.to_owned(),
        }
    }
}

fn changed<T: Copy + PartialEq>(field: &'static str, from: Option<T>, to: Option<T>) -> Option<ChangedLimit> {
    (from != to).then_some(ChangedLimit {
        field,
        is_new: from.is_none(),
        is_dropped: to.is_none(),
    })
}
