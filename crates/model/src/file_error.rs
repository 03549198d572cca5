//! Errors of operations on session files.

/// Reason why an operation on session files failed, as a stable code.
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
    /// The upload is not a tar archive, or has entries of an unsupported type.
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
