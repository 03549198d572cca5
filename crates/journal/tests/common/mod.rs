//! Helpers shared by the journal's tests.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use himalia_journal::{Cursor, Journal, Meta, NewRecord, Options, Read, Record, Recovery};

/// A record whose content follows from its number, so that a reader can check it.
pub(crate) fn numbered(number: u64, len: usize) -> NewRecord {
    let body: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(len).collect();
    let mut meta = [0; 40];
    meta[..8].copy_from_slice(&number.to_be_bytes());
    NewRecord {
        kind: u8::try_from(number % 251).unwrap(),
        meta: Meta(meta),
        body: Bytes::from(body),
    }
}

/// Whether `record` is what [`numbered`] made for its own seq.
pub(crate) fn assert_numbered(record: &Record) {
    let expected = numbered(record.seq, record.body.len());
    assert_eq!(
        (record.kind, record.meta),
        (expected.kind, expected.meta),
        "seq {}",
        record.seq
    );
    assert!(record.body == expected.body, "body of seq {}", record.seq);
}

#[allow(dead_code)]
pub(crate) fn small() -> Options {
    Options {
        tail_bytes: 2_000,
        segment_bytes: 4_000,
        quota_bytes: 1 << 30,
    }
}

pub(crate) fn open(dir: &Path, options: Options) -> (Journal, Recovery) {
    Journal::open(dir, options).unwrap()
}

/// Reads to the head; gaps as `Err((from, to))`.
#[allow(dead_code)]
pub(crate) fn drain(
    cursor: &mut Cursor,
    max_records: usize,
    max_bytes: usize,
) -> Vec<Result<Arc<Record>, (u64, u64)>> {
    let mut out = Vec::new();
    loop {
        match cursor.read(max_records, max_bytes).unwrap() {
            Read::Records(records) => {
                assert!(!records.is_empty() && records.len() <= max_records.max(1));
                out.extend(records.into_iter().map(Ok));
            }
            Read::Gap { from, to } => out.push(Err((from, to))),
            Read::UpToDate => return out,
        }
    }
}
