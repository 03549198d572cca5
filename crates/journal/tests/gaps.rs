//! Quotas, damage, and the gaps that they leave.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

mod common;

use std::fs;

use common::{assert_numbered, drain, numbered, open, small};
use himalia_journal::{Cursor, Journal, JournalError, Options, Read};

/// Appends `count` records of 932 bytes (1000 in the file), rolling when due.
fn fill(journal: &Journal, count: u64) {
    for _ in 0..count {
        if journal.roll_due() {
            journal.roll(b"state").unwrap();
        }
        journal.append(&numbered(journal.head() + 1, 932)).unwrap();
    }
}

/// What a cursor sees, as runs: `Ok` for records, `Err` for gaps.
fn runs(cursor: &mut Cursor) -> Vec<Result<(u64, u64), (u64, u64)>> {
    let mut runs: Vec<Result<(u64, u64), (u64, u64)>> = Vec::new();
    for item in drain(cursor, 7, 10_000) {
        match (item, runs.last_mut()) {
            (Ok(record), Some(Ok((_, to)))) => {
                assert_eq!(record.seq, *to + 1);
                assert_numbered(&record);
                *to = record.seq;
            }
            (Ok(record), _) => runs.push(Ok((record.seq, record.seq))),
            (Err(gap), _) => runs.push(Err(gap)),
        }
    }
    runs
}

#[test]
fn the_quota_deletes_the_oldest_and_readers_behind_get_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(
        dir.path(),
        Options {
            quota_bytes: 13_000,
            ..small()
        },
    );
    let mut early = journal.cursor(0);
    let mut half = journal.cursor(0);
    fill(&journal, 4);
    assert!(matches!(half.read(2, 100_000).unwrap(), Read::Records(records) if records.len() == 2));
    fill(&journal, 36);
    assert!(journal.disk_bytes() <= 13_000 + 4_100);
    let first = journal.first();
    assert!(first > 20 && (first - 1) % 4 == 0, "first is {first}");
    assert_eq!(runs(&mut early), [Err((1, first - 1)), Ok((first, 40))]);
    // The other one still had the first segment open: what it reads there may be whole, but never silent.
    assert_eq!(runs(&mut half), [Err((3, first - 1)), Ok((first, 40))]);
    assert_eq!(runs(&mut journal.cursor(first - 1)), [Ok((first, 40))]);
    assert_eq!(runs(&mut journal.cursor(40)), []);
    assert_eq!(
        journal.cursor(99).position(),
        40,
        "a position beyond the head is the head"
    );

    drop(journal);
    let (journal, recovery) = open(
        dir.path(),
        Options {
            quota_bytes: 13_000,
            ..small()
        },
    );
    assert_eq!((journal.first(), journal.head()), (first, 40));
    assert_eq!(recovery.checkpoint.as_deref(), Some(&b"state"[..]));
    assert_eq!(
        runs(&mut journal.cursor(0)),
        [Err((1, first - 1)), Ok((first, 40))]
    );
}

#[test]
fn another_quota_holds_from_the_next_segment_on() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path(), small());
    fill(&journal, 40);
    assert_eq!(journal.first(), 1);
    let mut early = journal.cursor(0);
    journal.set_quota(13_000);
    fill(&journal, 8);
    assert!(journal.disk_bytes() <= 13_000 + 4_100);
    let first = journal.first();
    assert_eq!(runs(&mut early), [Err((1, first - 1)), Ok((first, 48))]);
    // And a larger one again.
    journal.set_quota(1 << 20);
    fill(&journal, 40);
    assert_eq!(journal.first(), first);
}

#[test]
fn a_quota_smaller_than_the_tail_still_gives_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        tail_bytes: 1 << 20,
        segment_bytes: 4_000,
        quota_bytes: 4_500,
    };
    let (journal, _) = open(dir.path(), options);
    fill(&journal, 10);
    assert_eq!(runs(&mut journal.cursor(0)), [Err((1, 4)), Ok((5, 10))]);
}

#[test]
fn appends_stop_when_the_caller_never_rolls() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(
        dir.path(),
        Options {
            quota_bytes: 5_000,
            ..small()
        },
    );
    let result = (1..)
        .map(|seq| journal.append(&numbered(seq, 932)))
        .find_map(Result::err)
        .unwrap();
    assert!(
        matches!(result, JournalError::RollOverdue { quota: 5_000, .. }),
        "{result}"
    );
    assert_eq!(journal.head(), 5);
    journal.roll(b"state").unwrap();
    assert_eq!(journal.append(&numbered(6, 1)).unwrap(), 6);
}

#[test]
fn damage_inside_an_old_segment_is_a_gap_to_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path(), small());
    fill(&journal, 20);
    let path = dir.path().join("00000000000000000005.seg");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() - 1500;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(
        runs(&mut journal.cursor(0)),
        [Ok((1, 6)), Err((7, 8)), Ok((9, 20))]
    );
    assert_eq!(
        runs(&mut journal.cursor(7)),
        [Ok((8, 20))],
        "what is after the damage can still be asked for"
    );
    fs::write(&path, &bytes[..10]).unwrap();
    assert_eq!(
        runs(&mut journal.cursor(0)),
        [Ok((1, 4)), Err((5, 8)), Ok((9, 20))]
    );
    fs::remove_file(&path).unwrap();
    assert_eq!(
        runs(&mut journal.cursor(0)),
        [Ok((1, 4)), Err((5, 8)), Ok((9, 20))]
    );
    drop(journal);
    let (journal, _) = open(dir.path(), small());
    assert_eq!(
        runs(&mut journal.cursor(0)),
        [Ok((1, 4)), Err((5, 8)), Ok((9, 20))]
    );
}

#[test]
fn a_segment_whose_start_is_damaged_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(dir.path(), small());
    fill(&journal, 6);
    drop(journal);
    let newest = dir.path().join("00000000000000000005.seg");
    let mut bytes = fs::read(&newest).unwrap();
    bytes[30] ^= 1;
    fs::write(&newest, &bytes).unwrap();
    let (journal, recovery) = open(dir.path(), small());
    assert_eq!(
        (journal.head(), recovery.checkpoint, recovery.torn_bytes),
        (4, None, bytes.len() as u64)
    );
    assert!(dir.path().join("torn.seg").exists());
    fill(&journal, 3);
    assert_eq!(runs(&mut journal.cursor(0)), [Ok((1, 7))]);
}

#[test]
fn an_empty_segment_is_replaced_by_a_roll() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(
        dir.path(),
        Options {
            tail_bytes: 0,
            ..small()
        },
    );
    journal.roll(b"one").unwrap();
    journal.roll(b"two").unwrap();
    fill(&journal, 2);
    let mut cursor = journal.cursor(0);
    assert!(matches!(cursor.read(1, 1).unwrap(), Read::Records(_)));
    drop(journal);
    let (journal, recovery) = open(dir.path(), small());
    assert_eq!(recovery.checkpoint.as_deref(), Some(&b"two"[..]));
    assert_eq!(runs(&mut journal.cursor(0)), [Ok((1, 2))]);
}

#[test]
fn small_bodies_pin_no_foreign_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(
        dir.path(),
        Options {
            tail_bytes: 1 << 20,
            ..small()
        },
    );
    let buffer = bytes::Bytes::from(vec![7; 65_536]);
    let mut record = numbered(1, 0);
    record.body = buffer.slice(100..700);
    journal.append(&record).unwrap();
    drop(record);
    let Read::Records(records) = journal.cursor(0).read(1, 1).unwrap() else {
        panic!("a record")
    };
    assert_eq!(records[0].body, buffer.slice(100..700));
    assert!(buffer.is_unique());
}
