//! What a huge record leaves in the page cache.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends by panicking")]

use std::fs::{self, File};
use std::io::{IoSliceMut, Write};
use std::path::Path;

use bytes::Bytes;
use himalia_journal::{Journal, Meta, NewRecord, Options};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

const HUGE: usize = 4 << 20;

/// Whether the beginning of a file can be read without the disk; an error where the file system does not say.
fn is_cached(path: &Path) -> Result<bool, Errno> {
    let file = File::open(path).unwrap();
    let mut bytes = [0; 64];
    match preadv2(
        &file,
        &mut [IoSliceMut::new(&mut bytes)],
        0,
        ReadWriteFlags::NOWAIT,
    ) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a file is like here whose pages were given back: not every file system gives them.
fn given_back(path: &Path) -> Result<bool, Errno> {
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; HUGE]).unwrap();
    file.sync_data().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    is_cached(path)
}

fn huge() -> NewRecord {
    NewRecord {
        kind: 1,
        meta: Meta::default(),
        body: Bytes::from(vec![b'x'; HUGE]),
    }
}

/// The segment of one huge record, rolled, with a flush before that or not, and flushed.
fn segment(flushed_before: bool) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options {
        segment_bytes: 1 << 20,
        ..Options::default()
    };
    let (journal, _) = Journal::open(dir.path().join("log"), options).unwrap();
    journal.append(&huge()).unwrap();
    if flushed_before {
        journal.sync().unwrap();
    }
    journal.roll(b"checkpoint").unwrap();
    journal.sync().unwrap();
    let segments = fs::read_dir(dir.path().join("log")).unwrap();
    let mut segments: Vec<_> = segments
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|name| name == "seg"))
        .collect();
    segments.sort();
    let first = segments.swap_remove(0);
    (dir, first)
}

#[test]
fn a_segment_of_a_huge_record_leaves_it_once_it_is_on_the_disk() {
    let other = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let wanted = given_back(&other.path().join("file"));
    for flushed_before in [false, true] {
        let (_dir, segment) = segment(flushed_before);
        assert_eq!(is_cached(&segment), wanted, "flushed before: {flushed_before}");
    }
}
