//! Errors of journals.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::OtherFormat;

/// An operation on a journal that did not happen. After any of these the log is as it was before the call.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Attempted action, as a verb phrase ("append to").
        action: &'static str,
        /// The file or directory it was tried on.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The log is of another version of the format. It is as it was.
    #[error(
        "{}: this log has the format of {found}, and this himalia reads version 01: move the data directory away, or use the build that wrote it",
        path.display()
    )]
    Format {
        /// The segment.
        path: PathBuf,
        /// Format of the log.
        found: OtherFormat,
    },
    /// A body or checkpoint is longer than [`MAX_BODY_BYTES`](crate::MAX_BODY_BYTES).
    #[error("a record of {bytes} bytes is over the limit of {limit} bytes")]
    TooLarge {
        /// Length in bytes.
        bytes: usize,
        limit: usize,
    },
    /// The newest segment alone has reached the quota because [`Journal::roll`](crate::Journal::roll) was not called.
    #[error("the newest segment holds {bytes} bytes and was not rolled; the quota is {quota} bytes")]
    RollOverdue {
        /// Bytes in the segment.
        bytes: u64,
        quota: u64,
    },
}

impl JournalError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// True if the cause is a full disk, a disk quota or a file size limit: waiting or deleting can help.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Io { source, .. } if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}
