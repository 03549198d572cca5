//! The newest records, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::record::Record;

/// Memory that a record in the tail costs beside its body: the record, its reference counts, two allocations.
const OVERHEAD: usize = 192;

/// A dense run of the newest records, bounded in bytes.
#[derive(Debug)]
pub(crate) struct Tail {
    records: VecDeque<Arc<Record>>,
    bytes: usize,
    limit: usize,
}

impl Tail {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            records: VecDeque::new(),
            bytes: 0,
            limit,
        }
    }

    /// Adds the next record and lets the oldest go while the tail is over its bound. The newest one stays whatever its
    /// size.
    pub(crate) fn push(&mut self, record: Arc<Record>) {
        self.bytes += cost(&record);
        self.records.push_back(record);
        while self.bytes > self.limit && self.records.len() > 1 {
            self.pop();
        }
    }

    /// Forgets all records before `first`.
    pub(crate) fn forget_before(&mut self, first: u64) {
        while self.first().is_some_and(|seq| seq < first) {
            self.pop();
        }
    }

    /// The oldest seq held.
    pub(crate) fn first(&self) -> Option<u64> {
        self.records.front().map(|record| record.seq)
    }

    /// Records from `from` on, which the tail must hold: at least one, at most `max_records`, and no other one that
    /// would take the sum of sizes over `max_bytes`.
    pub(crate) fn read(&self, from: u64, max_records: usize, max_bytes: usize) -> Vec<Arc<Record>> {
        let skip = self.first().map_or(0, |first| from.saturating_sub(first));
        let start = usize::try_from(skip)
            .unwrap_or(usize::MAX)
            .min(self.records.len());
        let mut bytes = 0usize;
        let mut out = Vec::with_capacity(max_records.clamp(1, self.records.len() - start + 1).min(256));
        for record in self.records.range(start..) {
            bytes = bytes.saturating_add(record.size());
            if !out.is_empty() && (out.len() >= max_records || bytes > max_bytes) {
                break;
            }
            out.push(Arc::clone(record));
        }
        out
    }

    fn pop(&mut self) {
        if let Some(record) = self.records.pop_front() {
            self.bytes -= cost(&record);
        }
    }
}

fn cost(record: &Record) -> usize {
    record.body.len() + OVERHEAD
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::record::Meta;

    fn record(seq: u64, len: usize) -> Arc<Record> {
        Arc::new(Record {
            seq,
            at_micros: 0,
            kind: 0,
            meta: Meta::default(),
            body: Bytes::from(vec![0; len]),
        })
    }

    #[test]
    fn it_is_bounded_in_bytes_and_always_holds_the_newest() {
        let mut tail = Tail::new(10 * (100 + OVERHEAD));
        for seq in 1..=25 {
            tail.push(record(seq, 100));
        }
        assert_eq!(tail.first(), Some(16));
        tail.push(record(26, 1 << 20));
        assert_eq!(tail.first(), Some(26));
        tail.push(record(27, 1));
        assert_eq!((tail.first(), tail.bytes), (Some(27), 1 + OVERHEAD));
    }

    #[test]
    fn a_read_is_bounded_and_never_empty() {
        let mut tail = Tail::new(1 << 20);
        for seq in 5..=9 {
            tail.push(record(seq, 100));
        }
        let seqs = |records: Vec<Arc<Record>>| records.iter().map(|record| record.seq).collect::<Vec<_>>();
        assert_eq!(seqs(tail.read(6, 2, usize::MAX)), [6, 7]);
        assert_eq!(seqs(tail.read(6, 100, 340)), [6, 7]);
        assert_eq!(seqs(tail.read(8, 0, 0)), [8]);
        tail.forget_before(7);
        assert_eq!(tail.first(), Some(7));
        assert_eq!(seqs(tail.read(7, 100, usize::MAX)), [7, 8, 9]);
    }
}
