//! Connections of an execution to the network.

use himalia_journal::Record;
use himalia_kernel::{NetworkOutcome, NetworkRecord};
use himalia_outcome::Failure;

/// Most different refusals that a hint names.
const REFUSALS: usize = 3;

/// Sums, and the first refusals.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    refusals: Vec<String>,
}

impl Network {
    /// One has ended or was refused.
    pub(super) fn add(&mut self, record: &Record) {
        let Ok(one) = serde_json::from_slice::<NetworkRecord>(&record.body) else {
            return;
        };
        self.sent_bytes = self.sent_bytes.saturating_add(one.sent_bytes);
        self.received_bytes = self.received_bytes.saturating_add(one.received_bytes);
        let refusal = one.reason.filter(|_| one.outcome == NetworkOutcome::Refused);
        if let Some(reason) = refusal.filter(|reason| !self.refusals.contains(reason))
            && self.refusals.len() < REFUSALS
        {
            self.refusals.push(reason);
        }
    }

    /// An exception that follows a refusal may come from it.
    pub(super) fn explain(&self, mut error: Failure) -> Failure {
        let known = error.hint.take();
        let all: Vec<String> = known.into_iter().chain(self.refusals.iter().cloned()).collect();
        error.hint = (!all.is_empty()).then(|| all.join("; "));
        error
    }
}
