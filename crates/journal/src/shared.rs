//! The part of a log that outlives this machine.
//!
//! A log of this crate is a directory of segments. A *shared* log has the same bytes elsewhere too: the newest segment in parts, one
//! for each batch, and each rolled segment as a whole. Its directory is a cache. What is elsewhere is the truth: when a log is opened,
//! its newest segment is made of its parts, and rolled segments that are not in the directory are fetched when they are read.
//!
//! Records are visible once their part is committed elsewhere, and not before.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

/// Storage of shared logs. All calls block.
pub trait SharedLogs: Debug + Send + Sync {
    /// Takes the log of this name, and makes its newest segment in `dir` what is kept elsewhere. A new log has nothing.
    ///
    /// # Errors
    /// When it cannot be read, or belongs to another gateway.
    fn open(&self, name: &str, dir: &Path) -> io::Result<RestoredLog>;

    /// Removes a log, if there is one. Returns at once; a removal that fails is tried again.
    fn remove(&self, name: &str);
}

/// A log as it was found elsewhere.
#[derive(Debug)]
pub struct RestoredLog {
    pub log: Arc<dyn SharedLog>,
    /// Rolled segments, in any order.
    pub sealed: Vec<SealedSegment>,
    /// Positions of readers in the shared storage. The file in the directory, if there is one, may be newer, or damaged by a power failure.
    pub positions: Option<Vec<u8>>,
    /// True if no part of its newest segment is shared, so that the bytes in the directory have to be committed.
    pub is_new: bool,
}

/// A rolled segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SealedSegment {
    /// Number of its first record.
    pub first: u64,
    pub bytes: u64,
}

/// Bytes of the newest segment.
#[derive(Clone, Debug)]
pub struct Part {
    /// Number of the first record of the segment.
    pub segment: u64,
    /// Offset of the bytes in the segment.
    pub at: u64,
    /// Number of the last record in them.
    pub last: u64,
    pub bytes: Bytes,
}

/// The part of one log that is elsewhere. Calls take effect in the order in which they were made.
pub trait SharedLog: Debug + Send + Sync {
    /// Commits bytes. The receiver completes when they are durable. It fails when this gateway may not write the log any more; a
    /// failure that can pass is tried again until it does.
    fn commit(&self, part: Part) -> oneshot::Receiver<()>;

    /// This segment will not be written any more, and is in this file.
    fn seal(&self, segment: SealedSegment, path: &Path);

    /// Removes a rolled segment.
    fn delete(&self, first: u64);

    /// Writes a rolled segment to this file. Blocks.
    ///
    /// # Errors
    /// When it cannot be read.
    fn fetch(&self, first: u64, to: &Path) -> io::Result<()>;

    /// Removes the log and all that is kept of it.
    fn remove(&self);

    /// Stores the positions of readers next to the log. The latest call wins.
    fn keep_positions(&self, bytes: Bytes);
}
