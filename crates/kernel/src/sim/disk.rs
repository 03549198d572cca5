//! The journal as a list: what is written is there after a crash.

use std::sync::Arc;

use himalia_journal::{NewRecord, Record};

#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) records: Vec<Arc<Record>>,
    pub(super) checkpoint: Option<Vec<u8>>,
    /// How many records the checkpoint covers.
    pub(super) covered: usize,
}

impl Disk {
    /// Appends all of a batch and gives back the number of its first record.
    pub(super) fn append(&mut self, batch: &[NewRecord], at_micros: u64) -> u64 {
        let first = self.records.len() as u64 + 1;
        for (seq, new) in (first..).zip(batch) {
            let NewRecord { kind, meta, body } = new.clone();
            self.records.push(Arc::new(Record {
                seq,
                at_micros,
                kind,
                meta,
                body,
            }));
        }
        first
    }

    pub(super) fn read(&self, seq: u64) -> Option<Arc<Record>> {
        self.records
            .get(usize::try_from(seq).ok()?.checked_sub(1)?)
            .cloned()
    }
}
