//! Places in the log of an execution, and following it from one.

use himalia_outcome::{Excerpt, Fold, Page, Sink};

use super::{ExecutionId, Follower, Language};

/// A place in the log of an execution from which its text can be folded on.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The record before it.
    pub(crate) seq: u64,
    sent: bool,
    text: himalia_outcome::Mark,
}

impl Mark {
    /// Bytes of the text before it that can no longer change.
    pub(crate) fn bytes(&self) -> u64 {
        self.text.bytes()
    }

    /// Approximate memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.text.weight()
    }

    /// Follows the text alone from here on, as a page.
    pub(crate) fn page(&self, id: ExecutionId, offset: u64, limit: usize) -> Follower<Page> {
        Follower::resumed(id, self, Page::new(offset, limit), self.text.page(offset, limit))
    }

    /// Follows the text alone from here on.
    pub(crate) fn text(&self, id: ExecutionId) -> Follower<String> {
        Follower::resumed(id, self, String::new(), self.text.text())
    }
}

impl Follower<Excerpt> {
    /// The place after the latest record.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            seq: self.seq,
            sent: self.sent,
            text: self.fold.mark(),
        }
    }

    /// The place before the record `seq`, where the text begins.
    pub(crate) fn origin(&self, seq: u64) -> Mark {
        Mark {
            seq: seq.saturating_sub(1),
            sent: self.sent,
            text: himalia_outcome::Mark::origin(),
        }
    }
}

impl<S: Sink + Clone> Follower<S> {
    fn resumed(id: ExecutionId, mark: &Mark, blank: S, fold: Fold<S>) -> Self {
        Self {
            sent: mark.sent,
            seq: mark.seq,
            fold,
            ..Self::new(id, Language::Kernel, String::new(), 0, blank)
        }
    }
}
