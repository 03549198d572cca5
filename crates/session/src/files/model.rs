use std::collections::BTreeMap;

use himalia_model::{EngineError, FileError, from_micros};
use himalia_shim_protocol::{FileEntry, FileHead, FileKind, StreamDone, StreamFailed, StreamFailure};
use time::OffsetDateTime;

/// Metadata of a file that is about to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Bytes of the whole file.
    pub size: u64,
    /// The first byte that is given.
    pub first: u64,
    /// Number of bytes that follow.
    pub bytes: u64,
    /// Time of the last change.
    pub modified: OffsetDateTime,
    /// Differs when the file differs.
    pub tag: String,
}

/// Entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileListing {
    /// In the order of paths, as many as were asked for.
    pub entries: Vec<ListedFile>,
    /// All entries that were looked at.
    pub total_entries: u64,
    /// Bytes of all files that were looked at.
    pub total_bytes: u64,
    /// There are more entries than are shown, or than were looked at.
    pub truncated: bool,
    /// The path after which the list continues, if it may.
    pub next: Option<String>,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Relative to the work directory.
    pub path: String,
    pub kind: FileKind,
    /// Size of a file.
    pub bytes: u64,
    /// Time of the last change.
    pub modified: OffsetDateTime,
    /// Permissions, from sandboxes that report them.
    pub mode: Option<u32>,
    /// Target of a symbolic link that was not followed.
    pub target: Option<String>,
    /// Metadata that was given with the file.
    pub metadata: BTreeMap<String, String>,
}

/// Result of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Files, directories and links; 1 for a single file.
    pub entries: u64,
    pub bytes: u64,
    /// A single file was not there before.
    pub created: bool,
}

/// Result of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedFiles {
    /// Files, directories and links.
    pub entries: u64,
}

/// Contents of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedFiles {
    /// Files, directories and links.
    pub entries: u64,
    /// Number of left out entries: pipes, sockets, devices, links that lead out, unreadable files.
    pub skipped: u64,
}

impl From<FileHead> for FileInfo {
    fn from(head: FileHead) -> Self {
        Self {
            size: head.size,
            first: head.first,
            bytes: head.bytes,
            modified: from_millis(head.modified_ms),
            tag: head.tag,
        }
    }
}

impl From<FileEntry> for ListedFile {
    fn from(entry: FileEntry) -> Self {
        Self {
            path: entry.path,
            kind: entry.kind,
            bytes: entry.bytes,
            modified: from_millis(entry.modified_ms),
            mode: entry.mode,
            target: entry.target,
            metadata: entry.metadata,
        }
    }
}

impl FileListing {
    /// Creates the listing from the entries of the shim.
    pub fn new(entries: Vec<FileEntry>, done: &StreamDone) -> Self {
        let last = entries.last().filter(|_| done.truncated);
        Self {
            next: last.map(|entry| entry.path.clone()),
            entries: entries.into_iter().map(ListedFile::from).collect(),
            total_entries: done.entries,
            total_bytes: done.bytes,
            truncated: done.truncated,
        }
    }
}

fn from_millis(millis: u64) -> OffsetDateTime {
    from_micros(millis.saturating_mul(1000))
}

/// Translates a failure of the shim. Its text is shown to callers: it comes from a sandbox, as the files do.
pub(crate) fn failure(failed: &StreamFailed) -> EngineError {
    let code = match failed.code {
        StreamFailure::BadPath => FileError::BadPath,
        StreamFailure::Outside => FileError::Outside,
        StreamFailure::NotFound => FileError::NotFound,
        StreamFailure::IsADirectory => FileError::IsADirectory,
        StreamFailure::NotADirectory => FileError::NotADirectory,
        StreamFailure::NotAFile => FileError::NotAFile,
        StreamFailure::NotEmpty => FileError::NotEmpty,
        StreamFailure::Range => FileError::Range,
        StreamFailure::TooLarge => FileError::TooLarge,
        StreamFailure::NoSpace => FileError::NoSpace,
        StreamFailure::Permission => FileError::Permission,
        StreamFailure::BadArchive => FileError::BadArchive,
        StreamFailure::Busy => FileError::TooMany,
        StreamFailure::Failed => FileError::Failed,
    };
    let reason = failed.reason.chars().take(1000).collect();
    EngineError::Files { code, reason }
}
