//! Characters that were returned to a model about a kernel, and about each of its latest executions.
//!
//! They are records of the log as other counts are. An answer comes after the end of the execution that it is about, so the sums are kept
//! here, and not read from an execution's part of the log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::executions::queue::MAX_RECENT;

/// Characters returned to models so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedText {
    /// Characters of all answers.
    pub chars: u64,
    /// Characters about executions, by the number of their first record; the latest ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    executions: BTreeMap<u64, u64>,
    /// The latest execution that is not among them any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    forgotten: u64,
}

impl ReturnedText {
    /// Characters of answers about an execution; `None` if it is not known any more.
    pub fn about(&self, execution: u64) -> Option<u64> {
        let known = self.executions.get(&execution).copied();
        known.or_else(|| (execution > self.forgotten).then_some(0))
    }

    /// True if no characters were returned.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, execution: Option<u64>, chars: u64) {
        self.chars = self.chars.saturating_add(chars);
        // One that was forgotten stays so.
        let Some(execution) = execution.filter(|seq| *seq > self.forgotten) else {
            return;
        };
        let sum = self.executions.entry(execution).or_default();
        *sum = sum.saturating_add(chars);
        if self.executions.len() > MAX_RECENT
            && let Some((oldest, _)) = self.executions.pop_first()
        {
            self.forgotten = oldest;
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
