//! Requests of clients that were lost with a process, until they are answered.

use std::collections::BTreeMap;

use himalia_shim_protocol::RequestId;

use super::ledger::Entry;
use crate::executions::progress::VERDICT_WAIT;
use crate::executions::records::execution_of;

/// Answers that lost requests are still to get.
#[derive(Debug, Default)]
pub(crate) struct LostRequests {
    /// When each is due, monotonic microseconds. `None`: its record is being fetched.
    pub(super) due: BTreeMap<RequestId, Option<u64>>,
}

impl LostRequests {
    /// One was lost at this time.
    pub(super) fn add(&mut self, id: RequestId, entry: &Entry, mono: u64) {
        let of_client = entry.owner != 0 && execution_of(entry.owner).is_none();
        if of_client && entry.kind.replies() && !entry.replied && entry.seq != 0 {
            let wait = if entry.busy { 0 } else { VERDICT_WAIT };
            self.due.insert(id, Some(mono.saturating_add(wait)));
        }
    }

    /// It never ran.
    pub(super) fn remove(&mut self, id: RequestId) {
        self.due.remove(&id);
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.due.values().flatten().min().copied()
    }
}
