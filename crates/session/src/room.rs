//! Checks for room on the disk before an owner's bytes are written.

use std::path::PathBuf;
use std::sync::Arc;

use himalia_model::{EngineError, OPERATOR, Principal};

use crate::SessionManager;
use crate::disk::{DiskUse, Room, free, size, used};

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
        let room = self.usage.rooms.hold(owner, bytes);
        let limits = self.config.tenants.get(owner).map(|limits| limits.share);
        if owner == OPERATOR {
            return Ok(room);
        }
        let most = limits.unwrap_or_default().disk_bytes;
        let used = self.disk_of(owner).await?.sum();
        let wanted = used.saturating_add(self.usage.rooms.held(owner));
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
        let (known, unknown) = self.ended.kept_bytes(owner);
        let (ended, data_dir) = (Arc::clone(&self.ended), self.config.data_dir.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let measured = unknown.into_iter().map(|dir| {
                let bytes = size(&data_dir.join(&dir));
                ended.add_size(dir, bytes);
                bytes
            });
            (used(&live), known + measured.sum::<u64>())
        });
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
