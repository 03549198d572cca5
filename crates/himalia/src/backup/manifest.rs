//! Manifest of a backup.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The form of backups that this program writes and reads.
const FORMAT: u32 = 1;
/// The largest manifest, bytes: some 200,000 files.
pub(super) const MAX_BYTES: u64 = 64 << 20;

/// The last entry of a backup.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    /// The version that wrote it.
    pub(super) himalia: String,
    /// When it was started, RFC 3339.
    pub(super) created: String,
    /// All files, in the order in which they come.
    pub(super) files: Vec<File>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct File {
    /// Path. Bytes that are not UTF-8 are replaced.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// SHA-256 of the content, hexadecimal.
    pub(super) sha256: String,
}

impl Manifest {
    pub(super) fn new() -> Self {
        Self {
            format: FORMAT,
            himalia: env!("CARGO_PKG_VERSION").to_owned(),
            created: OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
            files: Vec::new(),
        }
    }

    /// Returns true if this program can read the backup's format.
    pub(super) fn is_known(&self) -> bool {
        self.format == FORMAT
    }
}
