//! One writer and many readers at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{assert_numbered, numbered, open};
use himalia_journal::{Journal, Options, Read};

const RECORDS: u64 = 15_000;

/// Reads all records, checks each, and returns how many came from gaps.
fn follow(journal: &Journal, max_records: usize, max_bytes: usize, done: &AtomicBool) -> u64 {
    let mut cursor = journal.cursor(0);
    let mut next = 1;
    let mut missing = 0;
    loop {
        let finished = done.load(Ordering::Acquire);
        match cursor.read(max_records, max_bytes).unwrap() {
            Read::Records(records) => {
                for record in records {
                    assert_eq!(record.seq, next);
                    assert_numbered(&record);
                    next += 1;
                }
            }
            Read::Gap { from, to } => {
                assert_eq!(from, next);
                assert!(to >= from);
                missing += to - from + 1;
                next = to + 1;
            }
            Read::UpToDate if finished => break,
            Read::UpToDate => thread::yield_now(),
        }
    }
    assert_eq!(next, RECORDS + 1);
    missing
}

fn race(options: Options) -> Vec<u64> {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path(), options);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = [(1, 0), (10, 1_000), (1_000, 1 << 20), (64, 256 << 10)]
            .into_iter()
            .map(|(records, bytes)| {
                let (journal, done) = (&journal, &done);
                scope.spawn(move || follow(journal, records, bytes, done))
            })
            .collect();
        scope.spawn(|| {
            let mut seq = 1;
            while seq <= RECORDS {
                let end = (seq + 1 + seq % 7).min(RECORDS + 1);
                let batch: Vec<_> = (seq..end)
                    .map(|seq| numbered(seq, usize::try_from(seq % 400).unwrap()))
                    .collect();
                assert_eq!(journal.append_batch(&batch).unwrap(), seq..end);
                seq = end;
                if journal.roll_due() {
                    journal.roll(b"state").unwrap();
                }
                if seq % 5_000 < 7 {
                    journal.sync().unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    })
}

#[test]
fn readers_in_memory_and_on_disk_see_every_record_in_order() {
    let options = Options {
        tail_bytes: 20_000,
        segment_bytes: 300_000,
        quota_bytes: 1 << 30,
    };
    assert_eq!(race(options), [0; 4]);
}

#[test]
fn with_a_quota_what_is_missing_is_always_told() {
    race(Options {
        tail_bytes: 20_000,
        segment_bytes: 100_000,
        quota_bytes: 300_000,
    });
}
