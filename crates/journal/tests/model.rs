//! Random histories against a plain list.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

mod common;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use common::{assert_numbered, drain, numbered, open};
use himalia_journal::{Journal, Options, Recovery};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    /// Append records of these lengths in one batch.
    Append(Vec<usize>),
    Roll,
    /// Close and open again.
    Reopen,
    /// Cut this many bytes off the newest segment, as a crash during a write leaves it, and open again.
    Crash(u64),
    /// Read from a position (in thousandths of the head) with these limits.
    Read(u64, usize, usize),
    Sync,
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![8 => 0usize..300, 1 => 30_000usize..40_000, 1 => 130_000usize..140_000];
    prop_oneof![
        6 => prop::collection::vec(len, 0..6).prop_map(Op::Append),
        2 => Just(Op::Roll),
        1 => Just(Op::Reopen),
        1 => (0u64..2_000).prop_map(Op::Crash),
        3 => (0u64..=1000, 1usize..20, 0usize..5_000).prop_map(|(at, n, bytes)| Op::Read(at, n, bytes)),
        1 => Just(Op::Sync),
    ]
}

/// What the journal must hold: lengths of all records, seqs of checkpoints.
#[derive(Default)]
struct Model {
    lengths: Vec<usize>,
    rolled_at: Vec<u64>,
}

impl Model {
    fn head(&self) -> u64 {
        self.lengths.len() as u64
    }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let mut segments: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|ext| ext == "seg"))
        .collect();
    segments.sort();
    segments
}

/// Truncates the newest segment by up to `cut` bytes, but not into its start, and tells the model.
fn crash(dir: &Path, model: &mut Model, cut: u64) {
    let newest = segments(dir).pop().unwrap();
    let size = fs::metadata(&newest).unwrap().len();
    let records = model.head() - model.rolled_at.last().copied().unwrap_or(0);
    let sizes: Vec<u64> = model.lengths.iter().rev().map(|len| *len as u64 + 68).collect();
    let content: u64 = sizes.iter().take(usize::try_from(records).unwrap()).sum();
    let cut = cut.min(content);
    OpenOptions::new()
        .write(true)
        .open(&newest)
        .unwrap()
        .set_len(size - cut)
        .unwrap();
    let mut lost = 0;
    for size in sizes {
        if lost >= cut {
            break;
        }
        lost += size;
        model.lengths.pop();
    }
}

fn check_recovery(model: &Model, journal: &Journal, recovery: &Recovery) {
    assert_eq!(journal.head(), model.head());
    let rolled_at = model.rolled_at.last().copied();
    assert_eq!(
        recovery.checkpoint.as_deref(),
        rolled_at.map(|seq| seq.to_string()).as_deref().map(str::as_bytes)
    );
    let seqs: Vec<u64> = recovery.since.iter().map(|record| record.seq).collect();
    assert_eq!(
        seqs,
        (rolled_at.unwrap_or(0) + 1..=model.head()).collect::<Vec<_>>()
    );
    recovery.since.iter().for_each(|record| assert_numbered(record));
}

/// A journal without a quota: everything that was appended is there, in order.
fn run(ops: Vec<Op>, options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    let (mut journal, recovery) = open(dir.path(), options);
    check_recovery(&model, &journal, &recovery);
    for op in ops {
        match op {
            Op::Append(lengths) => {
                let first = model.head() + 1;
                let batch: Vec<_> = (first..)
                    .zip(&lengths)
                    .map(|(seq, &len)| numbered(seq, len))
                    .collect();
                let seqs = journal.append_batch(&batch).unwrap();
                assert_eq!(seqs, first..first + batch.len() as u64);
                model.lengths.extend(lengths);
                assert_eq!(*journal.subscribe().borrow(), model.head());
            }
            Op::Roll => {
                journal.roll(model.head().to_string().as_bytes()).unwrap();
                assert!(!journal.roll_due() || options.segment_bytes < 200);
                model.rolled_at.push(model.head());
            }
            Op::Reopen | Op::Crash(_) => {
                drop(journal);
                if let Op::Crash(cut) = op {
                    crash(dir.path(), &mut model, cut);
                }
                let (reopened, recovery) = open(dir.path(), options);
                check_recovery(&model, &reopened, &recovery);
                journal = reopened;
            }
            Op::Read(at, max_records, max_bytes) => {
                let after = model.head() * at / 1000;
                let mut cursor = journal.cursor(after);
                let mut next = after + 1;
                for record in drain(&mut cursor, max_records, max_bytes) {
                    let record = record.expect("no gap without a quota");
                    assert_eq!(record.seq, next);
                    assert_eq!(
                        record.body.len(),
                        model.lengths[usize::try_from(next - 1).unwrap()]
                    );
                    assert_numbered(&record);
                    next += 1;
                }
                assert_eq!(next, model.head() + 1);
            }
            Op::Sync => journal.sync().unwrap(),
        }
        assert_eq!(journal.head(), model.head());
        let on_disk: u64 = segments(dir.path())
            .iter()
            .map(|path| fs::metadata(path).unwrap().len())
            .sum();
        assert_eq!(journal.disk_bytes(), on_disk);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_behaves_as_a_list(ops in prop::collection::vec(op(), 1..60), tail in 0usize..20_000) {
        run(ops, Options { tail_bytes: tail, segment_bytes: 4_000, quota_bytes: 1 << 40 });
    }

    /// Whatever byte the file is cut at or damaged at, opening works and what is left is a prefix.
    #[test]
    fn a_damaged_file_opens_and_holds_a_prefix(at in 0usize..4_000, cut: bool, rolled: bool) {
        let dir = tempfile::tempdir().unwrap();
        let (journal, _) = open(dir.path(), common::small());
        if rolled {
            journal.append_batch(&(1..=5).map(|seq| numbered(seq, 50)).collect::<Vec<_>>()).unwrap();
            journal.roll(b"state").unwrap();
        }
        let first = journal.head() + 1;
        journal.append_batch(&(first..first + 20).map(|seq| numbered(seq, 100)).collect::<Vec<_>>()).unwrap();
        drop(journal);
        let newest = segments(dir.path()).pop().unwrap();
        let mut bytes = fs::read(&newest).unwrap();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] ^= 0x10 }
        fs::write(&newest, bytes).unwrap();

        let (journal, recovery) = open(dir.path(), common::small());
        let head = journal.head();
        prop_assert!(head < first + 20);
        recovery.since.iter().for_each(|record| assert_numbered(record));
        for record in drain(&mut journal.cursor(0), 3, 1000) {
            assert_numbered(&record.expect("no gap before the head"));
        }
        prop_assert_eq!(journal.append(&numbered(head + 1, 10)).unwrap(), head + 1);
        drop(journal);
        let (journal, recovery) = open(dir.path(), common::small());
        prop_assert_eq!((journal.head(), recovery.torn_bytes), (head + 1, 0));
    }
}
