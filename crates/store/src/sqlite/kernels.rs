//! The rows of kernels.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{OptionalExtension as _, Row, Transaction, named_params};
use serde::Serialize;
use uuid::Uuid;

use super::claims::{Claims, epoch};
use super::{Failure, SqliteStore, conflict};
use crate::{KernelLife, KernelRecord, Owner, StoreError};

pub(super) const INSERT: &str = "
INSERT INTO kernels (id, owner, kernelspec, session_dir, run_dir, sandbox_id, sandbox_key_hash, isolation,
    incarnation, created_micros, launch, life, dead_cause, provisioner, socket, parent, template, start_path,
    start_reason, sandbox, labels, idle_timeout_ms, expires_micros, origin, name, role, replica, fence)
VALUES (:id, :owner, :kernelspec, :session_dir, :run_dir, :sandbox_id, :sandbox_key_hash, :isolation,
    :incarnation, :created_micros, :launch, :life, :dead_cause, :provisioner, :socket, :parent, :template, :start_path,
    :start_reason, :sandbox, :labels, :idle_timeout_ms, :expires_micros, :origin, :name, :role, :replica, 1)";

pub(super) const UPDATE: &str = "
UPDATE kernels SET owner = :owner, kernelspec = :kernelspec, session_dir = :session_dir, run_dir = :run_dir,
    sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash, isolation = :isolation,
    incarnation = :incarnation, created_micros = :created_micros, launch = :launch, life = :life,
    dead_cause = :dead_cause, provisioner = :provisioner, socket = :socket, parent = :parent,
    template = :template, start_path = :start_path, start_reason = :start_reason, sandbox = :sandbox,
    labels = :labels, idle_timeout_ms = :idle_timeout_ms, expires_micros = :expires_micros, origin = :origin,
    name = :name, role = :role, replica = :replica
WHERE id = :id";

pub(super) const SET_LIFE: &str =
    "UPDATE kernels SET life = ?2, incarnation = ?3, dead_cause = ?4 WHERE id = ?1";
pub(super) const MOVE: &str = "
UPDATE kernels SET run_dir = :run_dir, sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash,
    isolation = :isolation, incarnation = :incarnation, launch = :launch, life = :life, dead_cause = :dead_cause,
    provisioner = :provisioner, socket = :socket, start_path = :start_path, start_reason = :start_reason,
    sandbox = :sandbox
WHERE id = :id";
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
        let claim = self.claims.of(id);
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

    pub(super) async fn do_move_kernel(&self, kernel: KernelRecord) -> Result<bool, StoreError> {
        self.change(kernel.id, move |transaction| {
            let changed = transaction.prepare_cached(MOVE)?.execute(named_params! {
                ":id": kernel.id.to_string(),
                ":run_dir": kernel.run_dir,
                ":sandbox_id": kernel.sandbox_id,
                ":sandbox_key_hash": kernel.sandbox_key_hash,
                ":isolation": kernel.isolation,
                ":incarnation": kernel.incarnation,
                ":launch": json("launch", &kernel.launch)?,
                ":life": kernel.life.as_str(),
                ":dead_cause": kernel.dead_cause,
                ":provisioner": kernel.provisioner,
                ":socket": kernel.socket,
                ":start_path": kernel.start_path,
                ":start_reason": kernel.start_reason,
                ":sandbox": json("sandbox", &kernel.sandbox)?,
            })?;
            Ok(changed)
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

    pub(super) async fn do_set_kernel_start_path(
        &self,
        id: Uuid,
        path: &'static str,
    ) -> Result<bool, StoreError> {
        self.change(id, move |transaction| {
            let changed = transaction
                .prepare_cached("UPDATE kernels SET start_path = ?2 WHERE id = ?1")?
                .execute((id.to_string(), path))?;
            Ok(changed)
        })
        .await
    }

    pub(super) async fn do_set_kernel_terms(
        &self,
        id: Uuid,
        labels: BTreeMap<String, String>,
        idle_timeout_ms: Option<u64>,
        expires_micros: Option<i64>,
    ) -> Result<bool, StoreError> {
        self.change(id, move |transaction| {
            let idle = idle_timeout_ms.map(i64::try_from).transpose();
            let idle = idle.map_err(|error| bad("idle_timeout_ms", error.to_string()))?;
            let changed = transaction
                .prepare_cached(
                    "UPDATE kernels SET labels = ?2, idle_timeout_ms = ?3, expires_micros = ?4 WHERE id = ?1",
                )?
                .execute((id.to_string(), json("labels", &labels)?, idle, expires_micros))?;
            Ok(changed)
        })
        .await
    }

    pub(super) async fn do_delete_kernel(&self, id: Uuid) -> Result<bool, StoreError> {
        let claim = self.claims.of(id);
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
    let launch = json("launch", &kernel.launch)?;
    let idle = kernel.idle_timeout_ms.map(i64::try_from).transpose();
    Ok(transaction.prepare_cached(sql)?.execute(named_params! {
        ":id": kernel.id.to_string(),
        ":owner": kernel.owner,
        ":kernelspec": kernel.kernelspec,
        ":session_dir": kernel.session_dir,
        ":run_dir": kernel.run_dir,
        ":sandbox_id": kernel.sandbox_id,
        ":sandbox_key_hash": kernel.sandbox_key_hash.as_slice(),
        ":isolation": kernel.isolation,
        ":incarnation": kernel.incarnation,
        ":created_micros": kernel.created_micros,
        ":launch": launch,
        ":life": kernel.life.as_str(),
        ":dead_cause": kernel.dead_cause,
        ":provisioner": kernel.provisioner,
        ":socket": kernel.socket,
        ":parent": kernel.parent.map(|parent| parent.to_string()),
        ":template": kernel.template,
        ":start_path": kernel.start_path,
        ":start_reason": kernel.start_reason,
        ":sandbox": json("sandbox", &kernel.sandbox)?,
        ":labels": json("labels", &kernel.labels)?,
        ":idle_timeout_ms": idle.map_err(|error| bad("idle_timeout_ms", error.to_string()))?,
        ":expires_micros": kernel.expires_micros,
        ":origin": kernel.origin,
        ":name": kernel.name,
        ":role": kernel.role,
        ":replica": replica,
    })?)
}

fn read(row: &Row<'_>) -> Result<KernelRecord, Failure> {
    let id: String = row.get("id")?;
    let hash: Vec<u8> = row.get("sandbox_key_hash")?;
    let life: String = row.get("life")?;
    let parent: Option<String> = row.get("parent")?;
    let idle: Option<i64> = row.get("idle_timeout_ms")?;
    Ok(KernelRecord {
        id: Uuid::try_parse(&id).map_err(|error| bad("id", error.to_string()))?,
        owner: row.get("owner")?,
        kernelspec: row.get("kernelspec")?,
        session_dir: row.get("session_dir")?,
        run_dir: row.get("run_dir")?,
        sandbox_id: row.get("sandbox_id")?,
        sandbox_key_hash: hash
            .try_into()
            .map_err(|_| bad("sandbox_key_hash", "is not 32 bytes".to_owned()))?,
        isolation: row.get("isolation")?,
        incarnation: row.get("incarnation")?,
        created_micros: row.get("created_micros")?,
        launch: parsed(row, "launch")?,
        life: KernelLife::parse(&life)?,
        dead_cause: row.get("dead_cause")?,
        provisioner: row.get("provisioner")?,
        socket: row.get("socket")?,
        parent: parent
            .map(|parent| Uuid::try_parse(&parent))
            .transpose()
            .map_err(|error| bad("parent", error.to_string()))?,
        template: row.get("template")?,
        start_path: row.get("start_path")?,
        start_reason: row.get("start_reason")?,
        sandbox: parsed(row, "sandbox")?,
        labels: parsed(row, "labels")?,
        idle_timeout_ms: idle
            .map(u64::try_from)
            .transpose()
            .map_err(|error| bad("idle_timeout_ms", error.to_string()))?,
        expires_micros: row.get("expires_micros")?,
        origin: row.get("origin")?,
        name: row.get("name")?,
        role: row.get("role")?,
    })
}

fn json<T: Serialize>(column: &'static str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| bad(column, error.to_string()))
}

fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<T, Failure> {
    let text: String = row.get(column)?;
    Ok(serde_json::from_str(&text).map_err(|error| bad(column, error.to_string()))?)
}

fn bad(column: &'static str, reason: String) -> StoreError {
    StoreError::BadRow {
        table: "kernels",
        column,
        reason,
    }
}
