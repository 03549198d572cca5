//! The kernels that this replica has taken, with their fencing epochs.

use std::collections::HashMap;

use parking_lot::Mutex;
use uuid::Uuid;

/// The fencing epochs of the kernels that this replica inserted or took.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<Uuid, u64>>);

/// The fencing epoch under which this replica took a kernel; `None`: it never did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence(pub(crate) Option<u64>);

impl Fence {
    /// The number in statements; 0, which no kernel has, if this replica never took the kernel.
    pub(crate) fn number(self) -> i64 {
        self.0.map_or(0, |held| i64::try_from(held).unwrap_or(0))
    }
}

impl Claims {
    /// Notes the fencing epoch under which this replica took a kernel; `None`: it does not have it any more.
    pub(crate) fn set(&self, id: Uuid, epoch: Option<u64>) {
        let mut claims = self.0.lock();
        match epoch {
            Some(epoch) => claims.insert(id, epoch),
            None => claims.remove(&id),
        };
    }

    /// All kernels that this replica inserted or took.
    pub(crate) fn all(&self) -> Vec<Uuid> {
        self.0.lock().keys().copied().collect()
    }

    pub(crate) fn fence(&self, id: Uuid) -> Fence {
        Fence(self.0.lock().get(&id).copied())
    }

    /// Forgets a claim, as a process does that has not got the answer to its take-over.
    #[cfg(test)]
    pub(crate) fn remove(&self, id: Uuid) {
        self.set(id, None);
    }
}
