//! Calls of tools and of models by an execution.

use himalia_journal::Record;
use himalia_kernel::{Callee, ModelCallTotals, ToolCallRecord, ToolCallTotals};

/// Counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Calls {
    pub(super) tools: ToolCallTotals,
    pub(super) models: ModelCallTotals,
}

impl Calls {
    /// One was begun, has ended or was refused.
    pub(super) fn add(&mut self, record: &Record) {
        match serde_json::from_slice(&record.body) {
            Ok(ToolCallRecord::Begun { what, .. }) => match what.callee {
                Callee::Tool => self.tools.begun(),
                Callee::Model => self.models.begun(),
            },
            Ok(ToolCallRecord::Ended { end, .. }) => match end.callee {
                Callee::Tool => self.tools.ended(&end),
                Callee::Model => self.models.ended(&end),
            },
            Ok(ToolCallRecord::Refused { what, omitted, .. }) => match what.callee {
                Callee::Tool => self.tools.refused(omitted),
                Callee::Model => self.models.refused(omitted),
            },
            Ok(ToolCallRecord::Unknown) | Err(_) => {}
        }
    }
}
