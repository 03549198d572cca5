//! What the calls of tools of an execution did.

use himalia_journal::Record;
use himalia_kernel::{ToolCallRecord, ToolOutcome};

/// Counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ToolCalls {
    pub(super) calls: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) unknown: u64,
    pub(super) reply_bytes: u64,
}

impl ToolCalls {
    /// One was begun, has ended or was refused.
    pub(super) fn add(&mut self, record: &Record) {
        let one = |count: &mut u64| *count = count.saturating_add(1);
        match serde_json::from_slice(&record.body) {
            Ok(ToolCallRecord::Begun { .. }) => one(&mut self.calls),
            Ok(ToolCallRecord::Ended { end, .. }) => {
                self.reply_bytes = self.reply_bytes.saturating_add(end.reply_bytes);
                match end.outcome {
                    ToolOutcome::Done => {}
                    ToolOutcome::Failed | ToolOutcome::NotDone => one(&mut self.failed),
                    ToolOutcome::Unknown => one(&mut self.unknown),
                }
            }
            Ok(ToolCallRecord::Refused { omitted, .. }) => {
                let all = omitted.saturating_add(1);
                self.calls = self.calls.saturating_add(all);
                self.refused = self.refused.saturating_add(all);
            }
            Ok(ToolCallRecord::Unknown) | Err(_) => {}
        }
    }
}
