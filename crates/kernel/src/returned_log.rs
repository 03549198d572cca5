//! Records of characters that were returned to a model, written and read.

use std::sync::Arc;

use himalia_journal::Record;
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::executions::records::{execution_of, owner_of};
use super::meta::{RecordMeta, event_body};

/// The body of a record.
#[derive(Debug, Serialize, Deserialize)]
struct ReturnedRecord {
    chars: u64,
}

impl Core {
    /// So many characters were returned to a model, about the kernel or one of its executions.
    pub(super) fn note_returned(&mut self, execution: Option<u64>, chars: u64) {
        Arc::make_mut(&mut self.returned).add(execution, chars);
        self.changed = true;
        // A disk that is full is not given more of them to write.
        if !self.writes.failing() {
            let body = event_body(&ReturnedRecord { chars });
            self.log().returned(execution.map_or(0, owner_of), body);
        }
    }

    /// Adds a record of the journal.
    pub(super) fn fold_returned(&mut self, record: &Record, meta: &RecordMeta) {
        if let Ok(ReturnedRecord { chars }) = serde_json::from_slice(&record.body) {
            Arc::make_mut(&mut self.returned).add(execution_of(meta.owner), chars);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use crate::event::Command;
    use crate::executions::queue::MAX_RECENT;
    use crate::returned::ReturnedText;

    fn returned(bench: &mut Bench, execution: Option<u64>, chars: u64) {
        bench.order(1, Command::NoteReturned { execution, chars });
    }

    #[test]
    fn what_was_returned_is_known_to_the_next_gateway() {
        let mut bench = Bench::running();
        for (execution, chars) in [(Some(7), 5), (Some(7), 6), (Some(9), 1), (None, 100)] {
            returned(&mut bench, execution, chars);
        }
        for _ in 0..2 {
            let known = bench.core.snapshot().returned;
            assert_eq!(known.chars, 112);
            let about = [7, 9, 8].map(|execution| known.about(execution));
            assert_eq!(about, [Some(11), Some(1), Some(0)]);
            bench.recover();
        }
    }

    #[test]
    fn what_was_returned_is_in_a_checkpoint() {
        let mut bench = Bench::running();
        returned(&mut bench, Some(7), 5);
        let checkpoint = bench.core.checkpoint();
        let mut next = Core::new(crate::bench::settings(1), crate::event::Timestamp::default());
        next.restore(&checkpoint).unwrap();
        assert_eq!(next.snapshot().returned, bench.core.snapshot().returned);
        assert_eq!(next.snapshot().returned.about(7), Some(5));
    }

    #[test]
    fn the_oldest_executions_are_forgotten_and_never_wrong() {
        let mut known = ReturnedText::default();
        let count = MAX_RECENT as u64 + 1;
        for execution in 1..=count {
            known.add(Some(execution), 2);
        }
        known.add(Some(1), 3);
        assert_eq!(
            (known.about(1), known.about(2), known.about(count)),
            (None, Some(2), Some(2))
        );
        assert_eq!(known.chars, 2 * count + 3);
    }
}
