//! Room on the disk: what an owner's sessions and rows take of it, and how much must be free for more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use himalia_model::{EngineError, OPERATOR, Principal};
use parking_lot::Mutex;
use rustix::fs::statvfs;

use crate::SessionManager;

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
    fn sum(self) -> u64 {
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
    fn hold(self: &Arc<Self>, owner: &str, bytes: u64) -> Room {
        let mut held = self.0.lock();
        let all = held.entry(owner.to_owned()).or_default();
        *all = all.saturating_add(bytes);
        Room {
            rooms: Arc::clone(self),
            owner: owner.to_owned(),
            bytes,
        }
    }

    fn held(&self, owner: &str) -> u64 {
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

impl SessionManager {
    /// Checks that there is room for one more session of the principal: [`EngineError::DiskFull`], and [`EngineError::OverBudget`] for a tenant at
    /// its limit.
    pub async fn check_disk(&self, principal: &Principal) -> Result<(), EngineError> {
        self.room(principal.owner(), 1).await.map(drop)
    }

    /// Room for so many bytes of an owner, which are to be written to the database: [`EngineError::DiskFull`] where less than
    /// [`EngineConfig::min_free_bytes`](himalia_model::EngineConfig::min_free_bytes) is free, and [`EngineError::OverBudget`] for a tenant
    /// that would take more than it may. It is asked for before each write of what a caller sends, or what its runs return.
    pub async fn room(&self, owner: &str, bytes: u64) -> Result<Room, EngineError> {
        let least = self.config.min_free_bytes;
        let data_dir = self.config.data_dir.clone();
        let looked = tokio::task::spawn_blocking(move || free(&data_dir));
        let free = looked
            .await
            .map_err(|error| EngineError::internal("looking at the data directory", error))?;
        if let Some(free) = free.filter(|free| *free < least) {
            return Err(EngineError::DiskFull {
                reason: format!("{free} bytes of the data directory's disk are free, and {least} must be"),
            });
        }
        // Before it is looked what there is, so that two that ask at once are not both given the last room.
        let room = self.rooms.hold(owner, bytes);
        let limits = self.config.tenants.get(owner).map(|limits| limits.share);
        if owner == OPERATOR {
            return Ok(room);
        }
        let most = limits.unwrap_or_default().disk_bytes;
        let used = self.disk_of(owner).await?.sum();
        let wanted = used.saturating_add(self.rooms.held(owner));
        if wanted <= most {
            return Ok(room);
        }
        Err(EngineError::OverBudget {
            what: "disk",
            reason: format!(
                "sessions, runs and other records of the tenant {owner} take {used} bytes, and {most} are its limit"
            ),
            gateways: false,
            retry_after: 10,
        })
    }

    /// The bytes that an owner has.
    pub async fn disk_of(&self, owner: &str) -> Result<DiskUse, EngineError> {
        let live = self.registry.all_unordered().into_iter();
        let live = live.filter(|handle| handle.session().owner == owner && !handle.is_over());
        let live: Vec<PathBuf> = live.map(|handle| handle.journal.dir().to_owned()).collect();
        let (mut logs, mut known) = (Vec::new(), 0);
        for dir in self
            .ended
            .kept_of(|of| of == owner)
            .into_iter()
            .map(|row| row.session_dir)
        {
            match self.ended.size(&dir) {
                Some(bytes) => known += bytes,
                None => logs.push(self.config.data_dir.join(dir)),
            }
        }
        let looked = tokio::task::spawn_blocking(move || (used(&live), known + used(&logs)));
        let (live, ended) = looked
            .await
            .map_err(|error| EngineError::internal("looking at the data directory", error))?;
        let rows = self.store.owner_bytes(owner.to_owned()).await;
        let rows = rows.map_err(|error| EngineError::internal("counting the bytes of rows", error))?;
        Ok(DiskUse {
            live,
            ended,
            rows: u64::try_from(rows).unwrap_or(0),
        })
    }
}

/// Bytes of a directory's disk that are free for an ordinary user; `None` where that is not known.
pub fn free(dir: &Path) -> Option<u64> {
    let found = statvfs(dir);
    let found = found.inspect_err(|error| tracing::warn!(%error, "cannot measure the free disk space"));
    found.ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn used(logs: &[PathBuf]) -> u64 {
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
