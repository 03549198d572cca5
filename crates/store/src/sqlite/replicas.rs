//! The place of things in a store of one gateway: this one has everything.

use std::future::{Ready, ready};

use rusqlite::OptionalExtension as _;
use uuid::Uuid;

use super::SqliteStore;
use crate::failure::Failure;
use crate::{
    DeadReplica, Location, Lookup, ReplicaRecord, SessionStore as _, Store as _, StoreError, TakeOver,
    TakeOverResult,
};

const BY_NAME: &str = "SELECT id, owner FROM kernels WHERE owner = ?1 AND name = ?2";
const BY_ID: &str = "SELECT id, owner FROM kernels WHERE id = ?1";
const ENDED: &str = "
SELECT id, owner FROM ended_sessions WHERE id = ?1 AND removed_micros IS NULL ORDER BY ended_micros DESC LIMIT 1";
const ENDED_NAME: &str = "
SELECT id, owner FROM ended_sessions WHERE owner = ?1 AND name = ?2 AND removed_micros IS NULL
ORDER BY ended_micros DESC LIMIT 1";
const JUPYTER: &str = "SELECT id, owner FROM jupyter_sessions WHERE id = ?1";
const JUPYTER_PATH: &str = "
SELECT id, owner FROM jupyter_sessions WHERE owner = ?1 AND path = ?2 ORDER BY created_micros, id LIMIT 1";

impl SqliteStore {
    /// This replica, which lives.
    pub(super) fn myself(&self) -> ReplicaRecord {
        ReplicaRecord {
            name: self.process.name.to_string(),
            address: self.address.lock().clone(),
            epoch: self.inner.epoch,
            live: true,
        }
    }

    /// No other gateway has the file open, so every kernel in it can be taken.
    pub(crate) async fn do_take_over(&self, _what: TakeOver) -> Result<TakeOverResult, StoreError> {
        let kernels = self.take_kernels().await?.into_iter();
        Ok(TakeOverResult {
            kernels: kernels.map(|kernel| (kernel, String::new())).collect(),
            epoch: self.epoch(),
            ..TakeOverResult::default()
        })
    }

    #[expect(clippy::unused_self, reason = "no other replica has this file")]
    pub(crate) fn do_dead_replicas(&self) -> Ready<Result<Vec<DeadReplica>, StoreError>> {
        ready(Ok(Vec::new()))
    }

    #[expect(clippy::unused_self, reason = "no other replica has this file")]
    pub(crate) fn do_take_jupyter_sessions(&self, _kernels: Vec<Uuid>) -> Ready<Result<usize, StoreError>> {
        ready(Ok(0))
    }

    pub(crate) async fn do_locate(&self, what: Lookup) -> Result<Option<Location>, StoreError> {
        let (sql, params) = match what {
            Lookup::Kernel(id) => (BY_ID, vec![id.to_string()]),
            Lookup::Name { owner, name } => (BY_NAME, vec![owner, name]),
            Lookup::Ended(id) => (ENDED, vec![id.to_string()]),
            Lookup::EndedName { owner, name } => (ENDED_NAME, vec![owner, name]),
            Lookup::JupyterSession(id) => (JUPYTER, vec![id.to_string()]),
            Lookup::JupyterPath { owner, path } => (JUPYTER_PATH, vec![owner, path]),
        };
        let found = self
            .read(move |connection| {
                let found: Option<(String, String)> = connection
                    .prepare_cached(sql)?
                    .query_row(rusqlite::params_from_iter(params), |row| {
                        Ok((row.get(0)?, row.get(1)?))
                    })
                    .optional()?;
                let parsed = found.map(|(id, owner)| {
                    let id = Uuid::try_parse(&id).map_err(|error| StoreError::BadRow {
                        table: "kernels",
                        column: "id",
                        reason: error.to_string(),
                    })?;
                    Ok::<_, Failure>((id, owner))
                });
                parsed.transpose()
            })
            .await?;
        Ok(found.map(|(id, owner)| Location {
            id,
            owner,
            replica: self.myself(),
        }))
    }
}
