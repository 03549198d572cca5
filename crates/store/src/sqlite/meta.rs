//! Single values: the gateway epoch, and one that is written to see whether writing works.

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;
use crate::failure::Failure;

/// Takes the next gateway epoch, atomically.
pub(super) fn next_epoch(connection: &mut Connection) -> Result<u64, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let epoch: i64 = transaction.query_row(
        "UPDATE meta SET value = value + 1 WHERE key = 'gateway_epoch' RETURNING value",
        [],
        |row| row.get(0),
    )?;
    transaction.commit()?;
    let epoch = u64::try_from(epoch).map_err(|_| StoreError::BadRow {
        table: "meta",
        column: "value",
        reason: format!("gateway epoch {epoch} is negative"),
    });
    Ok(epoch?)
}

/// Writes something.
pub(super) fn check(connection: &Connection) -> Result<(), Failure> {
    connection.execute(
        "INSERT INTO meta (key, value) VALUES ('checks', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1",
        [],
    )?;
    Ok(())
}
