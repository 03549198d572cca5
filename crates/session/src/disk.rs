//! Room on the disk: what an owner's sessions take of it, and how much must be free for a new one.

use std::path::{Path, PathBuf};

use himalia_model::{EngineError, Principal};
use rustix::fs::statvfs;

use crate::SessionManager;

impl SessionManager {
    /// Whether there is room for one more session of the principal's: [`EngineError::DiskFull`], and [`EngineError::OverBudget`] for
    /// a tenant whose sessions take as much as they may.
    pub async fn check_disk(&self, principal: &Principal) -> Result<(), EngineError> {
        let least = self.config.min_free_bytes;
        let share = self.config.share(principal);
        let owner = principal.owner().to_owned();
        let data_dir = self.config.data_dir.clone();
        let looked = tokio::task::spawn_blocking(move || free(&data_dir));
        let free = looked
            .await
            .map_err(|error| EngineError::internal("looking at the data directory", error))?;
        if let Some(free) = free.filter(|free| *free < least) {
            return Err(EngineError::DiskFull {
                reason: format!(
                    "{free} bytes of the data directory's disk are free, and {least} must be for a new session"
                ),
            });
        }
        match share.map(|share| share.disk_bytes) {
            Some(most) => {
                let (live, ended) = self.disk_of(&owner).await?;
                if live + ended < most {
                    return Ok(());
                }
                Err(EngineError::OverBudget {
                    what: "disk",
                    reason: format!(
                        "the sessions of the tenant {owner} take {} bytes, and {most} are its limit",
                        live + ended
                    ),
                    gateways: false,
                    retry_after: 10,
                })
            }
            None => Ok(()),
        }
    }

    /// Bytes of logs and artifacts of an owner's sessions: of those that live, and of those that have ended.
    pub async fn disk_of(&self, owner: &str) -> Result<(u64, u64), EngineError> {
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
        looked
            .await
            .map_err(|error| EngineError::internal("looking at the data directory", error))
    }
}

/// Bytes of a directory's disk that are free for an ordinary user; `None` where that is not known.
pub fn free(dir: &Path) -> Option<u64> {
    let found = statvfs(dir);
    let found = found.inspect_err(|error| tracing::warn!(%error, "cannot tell how much disk is free"));
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
