use himalia_shim_protocol::{FileEntry, FileHead, FileKind, StreamDone, StreamFailed, StreamFailure};
use time::OffsetDateTime;

use crate::EngineError;
use crate::kernel::from_micros;

/// Why something with files is not done, in a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// The path is empty, absolute, too long, or has `..` in it.
    BadPath,
    /// A link on the way leads out of the session's files.
    Outside,
    /// There is no such file.
    NotFound,
    /// It is a directory.
    IsADirectory,
    /// A part of the path is no directory.
    NotADirectory,
    /// It is a pipe, a socket or a device.
    NotAFile,
    /// The directory is not empty.
    NotEmpty,
    /// The file has no such bytes.
    Range,
    /// More bytes, or entries, than a transfer may have.
    TooLarge,
    /// The disk is full.
    NoSpace,
    /// The session's files may not have so many bytes.
    Quota,
    /// The session's user may not do it.
    Permission,
    /// What was sent is no tar archive, or one with entries that are not taken.
    BadArchive,
    /// As many transfers as may be are under way in this sandbox.
    TooMany,
    /// Anything else.
    Failed,
}

impl FileError {
    /// The word in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadPath => "bad_path",
            Self::Outside => "path_outside",
            Self::NotFound => "file_not_found",
            Self::IsADirectory => "is_a_directory",
            Self::NotADirectory => "not_a_directory",
            Self::NotAFile => "not_a_file",
            Self::NotEmpty => "directory_not_empty",
            Self::Range => "range_not_satisfiable",
            Self::TooLarge => "file_too_large",
            Self::NoSpace => "no_space",
            Self::Quota => "disk_quota_exceeded",
            Self::Permission => "permission_denied",
            Self::BadArchive => "bad_archive",
            Self::TooMany => "too_many_transfers",
            Self::Failed => "file_failed",
        }
    }
}

/// What a file is that is about to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Bytes of the whole file.
    pub size: u64,
    /// The first byte that is given.
    pub first: u64,
    /// How many are given.
    pub bytes: u64,
    /// Its last change.
    pub modified: OffsetDateTime,
    /// Differs when the file differs.
    pub tag: String,
}

/// What is in a directory.
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
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Relative to the work directory.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Of a file.
    pub bytes: u64,
    /// Its last change.
    pub modified: OffsetDateTime,
}

/// What an upload has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenFiles {
    /// Files, directories and links; 1 for a single file.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// A single file was not there before.
    pub created: bool,
}

/// What a removal has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedFiles {
    /// Files, directories and links.
    pub entries: u64,
}

/// What an archive has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedFiles {
    /// Files, directories and links.
    pub entries: u64,
    /// What was left out: pipes, sockets, devices, links that lead out, what could not be read.
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
        }
    }
}

impl FileListing {
    pub(crate) fn new(entries: Vec<FileEntry>, done: &StreamDone) -> Self {
        Self {
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

/// What the shim says, in the caller's terms. What it says is shown: it comes from a sandbox, but so do the files.
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
