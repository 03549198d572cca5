//! The rows of kernels.

use std::sync::Arc;

use rusqlite::{OptionalExtension as _, Row, Transaction, named_params};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::SqliteStore;
use super::claims::epoch;
use super::failure::{Failure, conflict};
use crate::claims::Claims;
use crate::{KernelLife, KernelRecord, Owner, RuntimePaths, StoreError};

pub(super) const INSERT: &str = "
INSERT INTO kernels (id, owner, name, created_micros, session, session_dir, sandbox_id, sandbox_key_hash, socket,
    incarnation, life, dead_cause, replica, fence)
VALUES (:id, :owner, :name, :created_micros, :session, :session_dir, :sandbox_id, :sandbox_key_hash, :socket,
    :incarnation, :life, :dead_cause, :replica, 1)";

pub(super) const UPDATE: &str = "
UPDATE kernels SET owner = :owner, name = :name, created_micros = :created_micros, session = :session,
    session_dir = :session_dir, sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash, socket = :socket,
    incarnation = :incarnation, life = :life, dead_cause = :dead_cause, replica = :replica
WHERE id = :id";

pub(super) const SET_LIFE: &str =
    "UPDATE kernels SET life = ?2, incarnation = ?3, dead_cause = ?4 WHERE id = ?1";
pub(super) const MOVE: &str = "
UPDATE kernels SET sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash, socket = :socket,
    incarnation = :incarnation, life = 'starting', dead_cause = NULL
WHERE id = :id";
pub(super) const SESSION: &str = "SELECT session FROM kernels WHERE id = ?1";
pub(super) const SET_SESSION: &str = "UPDATE kernels SET session = ?2 WHERE id = ?1";
/// No other gateway has the file open, so every kernel in it can be taken.
pub(super) const TAKE: &str = "UPDATE kernels SET replica = ?1, fence = fence + 1";
pub(super) const DELETE: &str = "DELETE FROM kernels WHERE id = ?1";

impl SqliteStore {
    pub(super) async fn do_insert_kernel(&self, kernel: KernelRecord) -> Result<(), StoreError> {
        let (id, replica) = (kernel.id, Arc::clone(&self.replica));
        let insert = move |transaction: &Transaction<'_>| {
            put(transaction, INSERT, &kernel, &replica)
                .map(drop)
                .map_err(|failure| conflict(failure, "kernel", id))
        };
        self.write_then(insert, move |claims, ()| claims.set(id, 1)).await
    }

    pub(super) async fn do_take_kernels(&self) -> Result<Vec<KernelRecord>, StoreError> {
        let replica = Arc::clone(&self.replica);
        let take = move |transaction: &Transaction<'_>| {
            transaction.prepare_cached(TAKE)?.execute([&*replica])?;
            transaction
                .prepare_cached("SELECT * FROM kernels ORDER BY created_micros, id")?
                .query_map([], |row| Ok((read(row), row.get("fence")?)))?
                .map(|row| {
                    let (kernel, fence) = row?;
                    Ok((kernel?, epoch(fence)?))
                })
                .collect::<Result<Vec<(KernelRecord, u64)>, Failure>>()
        };
        let claim = |claims: &Claims, taken: &Vec<(KernelRecord, u64)>| {
            for (kernel, epoch) in taken {
                claims.set(kernel.id, *epoch);
            }
        };
        let taken = self.write_then(take, claim).await?;
        Ok(taken.into_iter().map(|(kernel, _)| kernel).collect())
    }

    pub(super) async fn do_owner(&self, id: Uuid) -> Result<Option<Owner>, StoreError> {
        self.read(move |connection| {
            let found: Option<(String, i64)> = connection
                .prepare_cached("SELECT replica, fence FROM kernels WHERE id = ?1")?
                .query_row([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let owner = found.map(|(replica, fence)| {
                let epoch = epoch(fence)?;
                Ok(Owner { replica, epoch })
            });
            owner.transpose()
        })
        .await
    }

    /// Changes a row of a kernel that this replica has; `false` when there is none.
    async fn change<F>(&self, id: Uuid, job: F) -> Result<bool, StoreError>
    where
        F: FnOnce(&Transaction<'_>) -> Result<usize, Failure> + Send + 'static,
    {
        let claim = self.claim(id);
        self.write(move |transaction| Ok(claim.check(transaction)? && job(transaction)? == 1))
            .await
    }

    pub(super) async fn do_update_kernel(&self, kernel: KernelRecord) -> Result<bool, StoreError> {
        let replica = Arc::clone(&self.replica);
        self.change(kernel.id, move |transaction| {
            put(transaction, UPDATE, &kernel, &replica)
        })
        .await
    }

    pub(super) async fn do_move_kernel(
        &self,
        id: Uuid,
        paths: RuntimePaths,
        incarnation: u32,
        changes: Map<String, Value>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |transaction| {
            transaction.prepare_cached(MOVE)?.execute(named_params! {
                ":id": id.to_string(),
                ":sandbox_id": paths.sandbox_id,
                ":sandbox_key_hash": paths.sandbox_key_hash,
                ":socket": paths.socket,
                ":incarnation": incarnation,
            })?;
            amend(transaction, id, changes)
        })
        .await
    }

    pub(super) async fn do_set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |transaction| {
            let changed = transaction.prepare_cached(SET_LIFE)?.execute((
                id.to_string(),
                life.as_str(),
                incarnation,
                dead_cause,
            ))?;
            Ok(changed)
        })
        .await
    }

    pub(super) async fn do_amend_session(
        &self,
        id: Uuid,
        changes: Map<String, Value>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |transaction| amend(transaction, id, changes))
            .await
    }

    pub(super) async fn do_delete_kernel(&self, id: Uuid) -> Result<bool, StoreError> {
        let claim = self.claim(id);
        let delete = move |transaction: &Transaction<'_>| {
            Ok(claim.check(transaction)?
                && transaction.prepare_cached(DELETE)?.execute([id.to_string()])? == 1)
        };
        self.write_then(delete, move |claims, _| claims.remove(id)).await
    }

    pub(super) async fn do_kernel(&self, id: Uuid) -> Result<Option<KernelRecord>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM kernels WHERE id = ?1")?
                .query_row([id.to_string()], |row| Ok(read(row)))
                .optional()?
                .transpose()
        })
        .await
    }

    pub(super) async fn do_kernels(&self) -> Result<Vec<KernelRecord>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT * FROM kernels ORDER BY created_micros, id")?
                .query_map([], |row| Ok(read(row)))?
                .map(|row| row?)
                .collect()
        })
        .await
    }
}

fn put(
    transaction: &Transaction<'_>,
    sql: &str,
    kernel: &KernelRecord,
    replica: &str,
) -> Result<usize, Failure> {
    Ok(transaction.prepare_cached(sql)?.execute(named_params! {
        ":id": kernel.id.to_string(),
        ":owner": kernel.owner,
        ":name": kernel.name,
        ":created_micros": kernel.created_micros,
        ":session": kernel.session.to_string(),
        ":session_dir": kernel.paths.session_dir,
        ":sandbox_id": kernel.paths.sandbox_id,
        ":sandbox_key_hash": kernel.paths.sandbox_key_hash.as_slice(),
        ":socket": kernel.paths.socket,
        ":incarnation": kernel.incarnation,
        ":life": kernel.life.as_str(),
        ":dead_cause": kernel.dead_cause,
        ":replica": replica,
    })?)
}

/// Sets members of a kernel's session; how many kernels there are of this id.
fn amend(transaction: &Transaction<'_>, id: Uuid, changes: Map<String, Value>) -> Result<usize, Failure> {
    let id = id.to_string();
    let text: String = transaction
        .prepare_cached(SESSION)?
        .query_row([&id], |row| row.get(0))?;
    let mut session: Map<String, Value> = parsed("session", &text)?;
    session.extend(changes);
    let text = Value::Object(session).to_string();
    Ok(transaction.prepare_cached(SET_SESSION)?.execute([&id, &text])?)
}

fn read(row: &Row<'_>) -> Result<KernelRecord, Failure> {
    let id: String = row.get("id")?;
    let hash: Vec<u8> = row.get("sandbox_key_hash")?;
    let life: String = row.get("life")?;
    let session: String = row.get("session")?;
    Ok(KernelRecord {
        id: Uuid::try_parse(&id).map_err(|error| bad("id", error.to_string()))?,
        owner: row.get("owner")?,
        name: row.get("name")?,
        created_micros: row.get("created_micros")?,
        session: parsed("session", &session)?,
        paths: RuntimePaths {
            session_dir: row.get("session_dir")?,
            sandbox_id: row.get("sandbox_id")?,
            sandbox_key_hash: hash
                .try_into()
                .map_err(|_| bad("sandbox_key_hash", "is not 32 bytes".to_owned()))?,
            socket: row.get("socket")?,
        },
        incarnation: row.get("incarnation")?,
        life: KernelLife::parse(&life)?,
        dead_cause: row.get("dead_cause")?,
    })
}

fn parsed<T: serde::de::DeserializeOwned>(column: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| bad(column, error.to_string()))
}

fn bad(column: &'static str, reason: String) -> StoreError {
    StoreError::BadRow {
        table: "kernels",
        column,
        reason,
    }
}
