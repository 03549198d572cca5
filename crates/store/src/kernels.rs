//! One row per kernel: what a new gateway process needs to take it over.

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

const INSERT: &str = "
INSERT INTO kernels (id, owner, kernelspec, session_dir, run_dir, sandbox_id, sandbox_key_hash, isolation,
    incarnation, created_micros, launch, life, dead_cause)
VALUES (:id, :owner, :kernelspec, :session_dir, :run_dir, :sandbox_id, :sandbox_key_hash, :isolation,
    :incarnation, :created_micros, :launch, :life, :dead_cause)";

const UPDATE: &str = "
UPDATE kernels SET owner = :owner, kernelspec = :kernelspec, session_dir = :session_dir, run_dir = :run_dir,
    sandbox_id = :sandbox_id, sandbox_key_hash = :sandbox_key_hash, isolation = :isolation,
    incarnation = :incarnation, created_micros = :created_micros, launch = :launch, life = :life,
    dead_cause = :dead_cause
WHERE id = :id";

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

    /// Sets only what changes while a kernel lives; `false` when there is no such kernel.
    pub async fn set_kernel_life(
        &self,
        id: Uuid,
        life: KernelLife,
        incarnation: u32,
        dead_cause: Option<String>,
    ) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let changed = transaction
                .prepare_cached(
                    "UPDATE kernels SET life = ?2, incarnation = ?3, dead_cause = ?4 WHERE id = ?1",
                )?
                .execute((id.to_string(), life.as_str(), incarnation, dead_cause))?;
            Ok(changed == 1)
        })
        .await
    }

    /// Forgets a kernel; `false` when there was none.
    pub async fn delete_kernel(&self, id: Uuid) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            Ok(transaction.execute("DELETE FROM kernels WHERE id = ?1", [id.to_string()])? == 1)
        })
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
    let launch = serde_json::to_string(&kernel.launch).map_err(|error| bad("launch", error.to_string()))?;
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
    })?)
}

fn read(row: &Row<'_>) -> Result<KernelRecord, StoreError> {
    let id: String = row.get("id")?;
    let hash: Vec<u8> = row.get("sandbox_key_hash")?;
    let launch: String = row.get("launch")?;
    let life: String = row.get("life")?;
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
        launch: serde_json::from_str(&launch).map_err(|error| bad("launch", error.to_string()))?,
        life: KernelLife::parse(&life)?,
        dead_cause: row.get("dead_cause")?,
    })
}

fn bad(column: &'static str, reason: String) -> StoreError {
    StoreError::BadRow {
        table: "kernels",
        column,
        reason,
    }
}
