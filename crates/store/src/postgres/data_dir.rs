//! The store and the replica that a data directory belongs to.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The file in a data directory that says so.
pub const REPLICA_FILE: &str = "replica.json";

/// The content of the file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Membership {
    /// Identifies the database.
    pub(super) store_id: String,
    pub(super) replica: String,
    /// The gateway epoch of the latest process on this directory.
    pub(super) epoch: u64,
}

/// Reads it; `None` for a directory that belongs to no store yet. One that has a store of its own is refused.
pub(super) fn read(data_dir: &Path) -> Result<Option<Membership>, StoreError> {
    let own = data_dir.join("himalia.db");
    if own.exists() {
        return Err(StoreError::Mismatch {
            path: own,
            reason: "this data directory has a store of its own; a replica of a shared store needs a new one"
                .to_owned(),
        });
    }
    let path = data_dir.join(REPLICA_FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::Io { path, source }),
    };
    match serde_json::from_slice(&bytes) {
        Ok(found) => Ok(Some(found)),
        Err(error) => Err(StoreError::Corrupt {
            path,
            detail: error.to_string(),
        }),
    }
}

/// Writes it, durably and whole or not at all.
pub(super) fn write(data_dir: &Path, membership: &Membership) -> Result<(), StoreError> {
    let path = data_dir.join(REPLICA_FILE);
    let temporary = data_dir.join("replica.json.new");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&serde_json::to_vec(membership)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)
    };
    write().map_err(|source| StoreError::Io { path, source })
}
