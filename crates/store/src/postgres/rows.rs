//! Rows, as records.

use tokio_postgres::Row;

use super::failure::Failure;
use super::logs::LogPart;
use crate::{EndedRecord, JupyterSessionRecord, KernelLife, KernelRecord, RuntimePaths, StoreError};

pub(super) fn kernel(row: &Row) -> Result<KernelRecord, Failure> {
    let hash: Vec<u8> = row.try_get("sandbox_key_hash")?;
    let incarnation: i64 = row.try_get("incarnation")?;
    let life: String = row.try_get("life")?;
    Ok(KernelRecord {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        created_micros: row.try_get("created_micros")?,
        session: row.try_get("session")?,
        paths: RuntimePaths {
            session_dir: row.try_get("session_dir")?,
            sandbox_id: row.try_get("sandbox_id")?,
            sandbox_key_hash: hash
                .try_into()
                .map_err(|_| bad("kernels", "sandbox_key_hash", "is not 32 bytes".to_owned()))?,
            socket: row.try_get("socket")?,
        },
        incarnation: u32::try_from(incarnation)
            .map_err(|error| bad("kernels", "incarnation", error.to_string()))?,
        life: KernelLife::parse(&life)?,
        dead_cause: row.try_get("dead_cause")?,
    })
}

pub(super) fn ended(row: &Row) -> Result<EndedRecord, Failure> {
    Ok(EndedRecord {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        session_dir: row.try_get("session_dir")?,
        created_micros: row.try_get("created_micros")?,
        ended_micros: row.try_get("ended_micros")?,
        cause: row.try_get("cause")?,
        removed_micros: row.try_get("removed_micros")?,
        facts: row.try_get("facts")?,
    })
}

pub(super) fn jupyter_session(row: &Row) -> Result<JupyterSessionRecord, Failure> {
    Ok(JupyterSessionRecord {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        path: row.try_get("path")?,
        name: row.try_get("name")?,
        kind: row.try_get("type")?,
        kernel_id: row.try_get("kernel_id")?,
        created_micros: row.try_get("created_micros")?,
    })
}

pub(super) fn log_part(row: &Row) -> Result<LogPart, Failure> {
    Ok(LogPart {
        log: row.try_get("log")?,
        segment: row.try_get("segment")?,
        at: row.try_get("at")?,
        bytes: row.try_get("bytes")?,
        object: row.try_get("object")?,
        size: row.try_get("size")?,
    })
}

/// The texts in the first column.
pub(super) fn objects(rows: &[Row]) -> Result<Vec<String>, Failure> {
    let mut found = Vec::new();
    for row in rows {
        found.extend(row.try_get::<_, Option<String>>(0)?);
    }
    Ok(found)
}

/// The fencing epoch of a kernel, as the database has it.
pub(super) fn fence(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|error| bad("kernels", "fence", error.to_string()))
}

/// The epoch of a replica, as the database has it.
pub(super) fn replica_epoch(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|error| bad("replicas", "epoch", error.to_string()))
}

fn bad(table: &'static str, column: &'static str, reason: String) -> StoreError {
    StoreError::BadRow {
        table,
        column,
        reason,
    }
}
