//! Tail and list of segments, which the readers share with the writer.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::reader::Mark;
use crate::record::Record;
use crate::tail::Tail;

/// Distance in bytes between remembered places in a segment.
const MARK_EVERY: u64 = 1 << 20;

/// One segment file.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Seq of its first record, also its name.
    pub(crate) first: u64,
    /// Unlike that of every other file this journal has had: an empty segment can be replaced under the same name.
    pub(crate) generation: u64,
    /// Length of its sound content.
    pub(crate) bytes: u64,
    /// Some places inside, ascending, about [`MARK_EVERY`] bytes apart.
    pub(crate) marks: Vec<Mark>,
}

impl Entry {
    pub(crate) fn new(first: u64, generation: u64, bytes: u64) -> Self {
        Self {
            first,
            generation,
            bytes,
            marks: Vec::new(),
        }
    }

    /// Notes that the record `mark.seq` begins at `mark.offset`.
    pub(crate) fn note(&mut self, mark: Mark) {
        let last = self.marks.last().map_or(0, |mark| mark.offset);
        if mark.offset >= last + MARK_EVERY {
            self.marks.push(mark);
        }
    }
}

/// Place of the next record of a cursor.
#[derive(Debug)]
pub(crate) enum Location {
    /// Not written yet.
    Nowhere,
    /// In memory: here they are.
    Memory(Vec<Arc<Record>>),
    Disk(OnDisk),
    /// Gone; the first one that is left comes after `to`.
    Gone {
        to: u64,
    },
}

/// The part of a segment that a cursor may read.
#[derive(Debug)]
pub(crate) struct OnDisk {
    /// Name of the segment.
    pub(crate) first: u64,
    /// Generation of the file with that name.
    pub(crate) generation: u64,
    /// A known place at or before the wanted record, if there is a better one than the start.
    pub(crate) mark: Option<Mark>,
    /// The last seq to read here: later ones are in memory, in the next segment, or not published.
    pub(crate) to: u64,
}

/// The published state of a journal. Guarded by one lock that is held only for memory operations.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) head: u64,
    pub(crate) tail: Tail,
    /// Ascending, never empty; the last one is being written.
    pub(crate) segments: VecDeque<Entry>,
}

impl Index {
    /// The oldest seq that is kept, or the next one if there is none.
    pub(crate) fn first(&self) -> u64 {
        self.segments.front().map_or(self.head + 1, |entry| entry.first)
    }

    /// Bytes in all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|entry| entry.bytes).sum()
    }

    /// Finds the record `from`.
    pub(crate) fn locate(&self, from: u64, max_records: usize, max_bytes: usize) -> Location {
        if from > self.head {
            return Location::Nowhere;
        }
        let in_memory = self.tail.first().unwrap_or(self.head + 1);
        if from >= in_memory {
            return Location::Memory(self.tail.read(from, max_records, max_bytes));
        }
        let after = self.segments.partition_point(|entry| entry.first <= from);
        let Some(entry) = after.checked_sub(1).and_then(|at| self.segments.get(at)) else {
            return Location::Gone { to: self.first() - 1 };
        };
        let next_first = self.segments.get(after).map_or(u64::MAX, |next| next.first);
        let mark = entry
            .marks
            .partition_point(|mark| mark.seq <= from)
            .checked_sub(1);
        Location::Disk(OnDisk {
            first: entry.first,
            generation: entry.generation,
            mark: mark.and_then(|at| entry.marks.get(at)).copied(),
            to: self.head.min(next_first - 1).min(in_memory - 1),
        })
    }

    /// True if `from` can be read without the disk.
    pub(crate) fn in_memory(&self, from: u64) -> bool {
        from > self.head || self.tail.first().is_some_and(|first| from >= first)
    }
}
