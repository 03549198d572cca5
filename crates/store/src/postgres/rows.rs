//! Rows, as records.

use tokio_postgres::Row;

use super::logs::LogPart;
use crate::StoreError;
use crate::failure::Failure;

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
