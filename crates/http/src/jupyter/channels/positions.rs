//! The position of a client in its messages.
//!
//! A Jupyter socket carries no acknowledgement of messages, but TCP acknowledges bytes. Each message is marked with where
//! it ends in the stream of bytes; those whose end the peer's TCP has acknowledged count as got, and a client that
//! returns with its `session_id` continues behind them. The peer's TCP, not the program behind it: a client that dies with
//! messages in its receive buffer has got them. Behind a proxy it is the proxy's TCP.

use std::collections::VecDeque;

/// Marks of messages that are on their way. There are at most as many as fit into the socket's send buffer, plus one
/// batch.
#[derive(Debug, Default)]
pub(super) struct Positions {
    /// (end in the stream, number in the log), both ascending.
    marks: VecDeque<(u64, u64)>,
    /// Bytes of the stream that are known to be acknowledged.
    acknowledged: u64,
}

impl Positions {
    /// The message `seq` ends at `end`.
    pub(super) fn mark(&mut self, end: u64, seq: u64) {
        self.marks.push_back((end, seq));
    }

    /// Checks whether messages are on their way.
    pub(super) fn pending(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Settles the position: of the stream, `written` bytes went into the socket, of which `unacknowledged` are on their way. Returns the
    /// last message that the peer has received, if it has changed.
    pub(super) fn settle(&mut self, written: u64, unacknowledged: u64) -> Option<u64> {
        self.acknowledged = self.acknowledged.max(written.saturating_sub(unacknowledged));
        let mut got = None;
        while let Some((end, seq)) = self.marks.front().copied()
            && end <= self.acknowledged
        {
            got = Some(seq);
            self.marks.pop_front();
        }
        got
    }

    /// The number of bytes that the peer has acknowledged, as of the last settlement.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_acknowledged_messages_count() {
        let mut positions = Positions::default();
        for (end, seq) in [(10, 1), (20, 4), (30, 5)] {
            positions.mark(end, seq);
        }
        assert_eq!(positions.settle(5, 5), None);
        assert_eq!(positions.settle(25, 6), Some(1));
        assert_eq!(positions.settle(25, 6), None);
        assert_eq!(positions.settle(25, 0), Some(4));
        assert!(positions.pending());
        // The queue may hold bytes that are not of this stream (the upgrade's reply).
        assert_eq!(positions.settle(30, 200), None);
        assert_eq!(positions.settle(30, 0), Some(5));
        assert!(!positions.pending());
    }
}
