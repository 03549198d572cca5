//! Room on the disk: what an owner's sessions and rows take of it, and how much must be free for more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::statvfs;

/// Bytes of an owner on the disk and in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Logs and artifacts of sessions that live.
    pub live: u64,
    /// The same of sessions that have ended.
    pub ended: u64,
    /// Rows of skills, workflows, triggers, of what runs of these got and returned, of credentials and of access tokens.
    pub rows: u64,
}

impl DiskUse {
    pub(crate) fn sum(self) -> u64 {
        self.live.saturating_add(self.ended).saturating_add(self.rows)
    }
}

/// Bytes that owners are about to write.
#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<HashMap<String, u64>>);

/// Room for what is about to be written, until this is dropped: then it is written, or is not going to be.
#[derive(Debug)]
#[must_use = "the room is held as long as this"]
pub struct Room {
    rooms: Arc<Rooms>,
    owner: String,
    bytes: u64,
}

impl Rooms {
    pub(crate) fn hold(self: &Arc<Self>, owner: &str, bytes: u64) -> Room {
        let mut held = self.0.lock();
        let all = held.entry(owner.to_owned()).or_default();
        *all = all.saturating_add(bytes);
        Room {
            rooms: Arc::clone(self),
            owner: owner.to_owned(),
            bytes,
        }
    }

    pub(crate) fn held(&self, owner: &str) -> u64 {
        self.0.lock().get(owner).copied().unwrap_or(0)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = self.rooms.0.lock();
        if let Some(all) = held.get_mut(&self.owner) {
            *all = all.saturating_sub(self.bytes);
            if *all == 0 {
                held.remove(&self.owner);
            }
        }
    }
}

/// Bytes of a directory's disk that are free for an ordinary user; `None` where that is not known.
pub fn free(dir: &Path) -> Option<u64> {
    let found = statvfs(dir);
    let found = found.inspect_err(|error| tracing::warn!(%error, "cannot measure the free disk space"));
    found.ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Bytes of these logs and of their artifacts.
pub(crate) fn used(logs: &[PathBuf]) -> u64 {
    logs.iter().map(|log| size(log)).sum()
}

/// Bytes of the files of a log and of its artifacts. What cannot be read counts nothing.
pub(crate) fn size(log: &Path) -> u64 {
    let files = |dir: &Path| -> u64 {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let files = entries
            .filter_map(|entry| entry.metadata().ok())
            .filter(std::fs::Metadata::is_file);
        files.map(|file| file.len()).sum()
    };
    files(log) + files(&log.join("artifacts"))
}
