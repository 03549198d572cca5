//! What this replica has taken, and under which fencing epochs.

use std::collections::HashMap;

use parking_lot::Mutex;
use uuid::Uuid;

/// The fencing epochs of the kernels that this replica inserted or took.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<Uuid, u64>>);

impl Claims {
    pub(crate) fn set(&self, id: Uuid, epoch: u64) {
        self.0.lock().insert(id, epoch);
    }

    /// All kernels that this replica inserted or took.
    pub(crate) fn all(&self) -> Vec<Uuid> {
        self.0.lock().keys().copied().collect()
    }

    pub(crate) fn remove(&self, id: Uuid) {
        self.0.lock().remove(&id);
    }

    /// The epoch under which this replica took a kernel; `None`: it never did.
    pub(crate) fn epoch(&self, id: Uuid) -> Option<u64> {
        self.0.lock().get(&id).copied()
    }
}
