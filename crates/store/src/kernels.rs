//! One row per kernel: what a new gateway process needs to take it over.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension as _, Row, named_params};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Store, StoreError};

/// A kernel as the gateway knew it last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelRecord {
    /// The kernel id of the Jupyter API.
    pub id: Uuid,
    /// The principal that owns it.
    pub owner: String,
    /// The kernelspec it was started from.
    pub kernelspec: String,
    /// Directory of its journal, relative to the data directory.
    pub session_dir: String,
    /// The run directory (absolute) that its sandbox was started in, which the configuration may have left
    /// behind since.
    pub run_dir: String,
    /// Id of its sandbox, as the provisioner gave it.
    pub sandbox_id: String,
    /// SHA-256 of the sandbox key. The key itself is never stored.
    pub sandbox_key_hash: [u8; 32],
    /// Isolation level of the sandbox, as `himalia_sandbox::Isolation` spells it.
    pub isolation: String,
    /// Kernel processes so far under this id; 0 before the first is up.
    pub incarnation: u32,
    /// When it was asked for, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// How it was launched.
    pub launch: LaunchRecord,
    /// Whether it lives.
    pub life: KernelLife,
    /// Why it died, if it did.
    pub dead_cause: Option<String>,
    /// Kind of the provisioner that made its sandbox.
    pub provisioner: String,
    /// Name of the socket, in the sandbox's gateway directory, that its link calls. Branches have their own.
    pub socket: String,
    /// `session`, `branch` or `kernel`: a further one of its session.
    pub role: String,
    /// The kernel that it was forked from, which may be gone; of a further kernel, that of its session.
    pub parent: Option<Uuid>,
    /// The template that it was started from; the kernelspec's name for an implicit one.
    pub template: String,
    /// `pool`, `zygote`, `cold` or `fork`.
    pub start_path: String,
    /// Why it did not come from a pool, one line.
    pub start_reason: Option<String>,
    /// Limits, level and the like of its sandbox, in the engine's own terms.
    pub sandbox: serde_json::Value,
    /// Its owner's marks.
    pub labels: BTreeMap<String, String>,
    /// Idle for so many milliseconds, it is ended.
    pub idle_timeout_ms: Option<u64>,
    /// When it is ended whatever it does, in microseconds since the Unix epoch.
    pub expires_micros: Option<i64>,
    /// `jupyter` or `v1`.
    pub origin: String,
    /// Its owner's name for it; nothing else of that owner has it.
    pub name: Option<String>,
}

/// How a kernel was launched, without its environment: that is secret, and a restart does not need it since
/// the shim keeps it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The resolved command line.
    pub argv: Vec<String>,
    /// The working directory, as the sandbox sees it.
    pub cwd: String,
    /// `signal` or `message`, as in the kernelspec.
    pub interrupt_mode: String,
}

/// Life of a kernel, as far as it must be durable. Busy and idle are not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KernelLife {
    /// Its sandbox was asked for. After a crash of the gateway it may or may not exist.
    Starting,
    /// Its process was up.
    Live,
    /// Its process ended and was not restarted.
    Dead,
}

impl KernelLife {
    /// The spelling in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Dead => "dead",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        match text {
            "starting" => Ok(Self::Starting),
            "live" => Ok(Self::Live),
            "dead" => Ok(Self::Dead),
            other => Err(bad("life", format!("unknown value {other:?}"))),
        }
    }
}

pub(crate) const INSERT: &str = "
INSERT INTO kernels (id, owner, kernelspec, session_dir, run_dir, sandbox_id, sandbox_key_hash, isolation,
    incarnation, created_micros, launch, life, dead_cause, provisioner, socket, parent, template, start_path,
    start_reason, sandbox, labels, idle_timeout_ms, expires_micros, origin, name, role)
VALUES (:id, :owner, :kernelspec, :session_dir, :run_dir, :sandbox_id, :sandbox_key_hash, :isolation,
    :incarnation, :created_micros, :launch, :life, :dead_cause, :provisioner, :socket, :parent, :template, :start_path,
    :start_reason, :sandbox, :labels, :idle_timeout_ms, :expires_micros, :origin, :name, :role)";

pub(crate) const UPDATE: &str = "
UPDATE kernels SET owner = :owner, kernelspec = :kernelspec, session_dir = :session_dir, run_dir = :run_dir,
    sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash, isolation = :isolation,
    incarnation = :incarnation, created_micros = :created_micros, launch = :launch, life = :life,
    dead_cause = :dead_cause, provisioner = :provisioner, socket = :socket, parent = :parent,
    template = :template, start_path = :start_path, start_reason = :start_reason, sandbox = :sandbox,
    labels = :labels, idle_timeout_ms = :idle_timeout_ms, expires_micros = :expires_micros, origin = :origin,
    name = :name, role = :role
WHERE id = :id";

pub(crate) const SET_LIFE: &str =
    "UPDATE kernels SET life = ?2, incarnation = ?3, dead_cause = ?4 WHERE id = ?1";
pub(crate) const MOVE: &str = "
UPDATE kernels SET run_dir = :run_dir, sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash,
    isolation = :isolation, incarnation = :incarnation, launch = :launch, life = :life, dead_cause = :dead_cause,
    provisioner = :provisioner, socket = :socket, start_path = :start_path, start_reason = :start_reason,
    sandbox = :sandbox
WHERE id = :id";
pub(crate) const DELETE: &str = "DELETE FROM kernels WHERE id = ?1";

impl Store {
    /// Adds a kernel. [`StoreError::Conflict`] when its id is taken.
    pub async fn insert_kernel(&self, kernel: KernelRecord) -> Result<(), StoreError> {
        self.write(move |transaction| {
            put(transaction, INSERT, &kernel)
                .map_err(|error| match error {
                    StoreError::Sqlite(error) => StoreError::conflict(error, "kernel", kernel.id),
                    other => other,
                })
                .map(drop)
        })
        .await
    }

    /// Replaces the row of `kernel.id`; `false` when there is none.
    pub async fn update_kernel(&self, kernel: KernelRecord) -> Result<bool, StoreError> {
        self.write(move |transaction| Ok(put(transaction, UPDATE, &kernel)? == 1))
            .await
    }

    /// Sets where and how the kernel of `kernel.id` runs, since it has a new sandbox; its log, owner, name and terms stay. `false`
    /// when there is no such kernel.
    pub async fn move_kernel(&self, kernel: KernelRecord) -> Result<bool, StoreError> {
        self.write(move |transaction| {
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
            Ok(changed == 1)
        })
        .await
    }

    /// Sets only what changes while a kernel lives; `false` when there is no such kernel.
    pub async fn set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let changed = transaction.prepare_cached(SET_LIFE)?.execute((
                id.to_string(),
                life.as_str(),
                incarnation,
                dead_cause,
            ))?;
            Ok(changed == 1)
        })
        .await
    }

    /// Sets how the kernel came to be; `false` when there is no such kernel.
    pub async fn set_kernel_start_path(&self, id: Uuid, path: &'static str) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let changed = transaction
                .prepare_cached("UPDATE kernels SET start_path = ?2 WHERE id = ?1")?
                .execute((id.to_string(), path))?;
            Ok(changed == 1)
        })
        .await
    }

    /// Sets what its owner may change of a kernel: marks, and when it ends; `false` when there is no such kernel.
    pub async fn set_kernel_terms(
        &self,
        id: Uuid,
        labels: BTreeMap<String, String>,
        idle_timeout_ms: Option<u64>,
        expires_micros: Option<i64>,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let idle = idle_timeout_ms.map(i64::try_from).transpose();
            let idle = idle.map_err(|error| bad("idle_timeout_ms", error.to_string()))?;
            let changed = transaction
                .prepare_cached(
                    "UPDATE kernels SET labels = ?2, idle_timeout_ms = ?3, expires_micros = ?4 WHERE id = ?1",
                )?
                .execute((id.to_string(), json("labels", &labels)?, idle, expires_micros))?;
            Ok(changed == 1)
        })
        .await
    }

    /// Forgets a kernel; `false` when there was none.
    pub async fn delete_kernel(&self, id: Uuid) -> Result<bool, StoreError> {
        self.write(move |transaction| Ok(transaction.prepare_cached(DELETE)?.execute([id.to_string()])? == 1))
            .await
    }

    /// One kernel.
    pub async fn kernel(&self, id: Uuid) -> Result<Option<KernelRecord>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare_cached("SELECT * FROM kernels WHERE id = ?1")?
                .query_row([id.to_string()], |row| Ok(read(row)))
                .optional()?
                .transpose()
        })
        .await
    }

    /// Every kernel, oldest first.
    pub async fn kernels(&self) -> Result<Vec<KernelRecord>, StoreError> {
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
    transaction: &rusqlite::Transaction<'_>,
    sql: &str,
    kernel: &KernelRecord,
) -> Result<usize, StoreError> {
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
    })?)
}

fn read(row: &Row<'_>) -> Result<KernelRecord, StoreError> {
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

fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| bad(column, error.to_string()))
}

fn bad(column: &'static str, reason: String) -> StoreError {
    StoreError::BadRow {
        table: "kernels",
        column,
        reason,
    }
}
