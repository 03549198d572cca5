//! Bytes of the rows of owners. Triggers of the database count them.

use rusqlite::{Transaction, params};

use super::SqliteStore;
use super::failure::Failure;
use crate::StoreError;

/// Runs of an owner that have ended, with the bytes of their rows, the first end first.
const ENDED: &str = "
SELECT id, octet_length(principal) + octet_length(inputs) + coalesce(octet_length(outputs), 0) + coalesce(octet_length(error), 0)
    + (SELECT coalesce(sum(coalesce(octet_length(outputs), 0) + coalesce(octet_length(error), 0)
           + coalesce(octet_length(prompt), 0)), 0) FROM workflow_steps WHERE run = id)
FROM workflow_runs WHERE owner = ?1 AND ended_micros IS NOT NULL ORDER BY ended_micros, id";

impl SqliteStore {
    pub(super) async fn do_owner_bytes(&self, owner: String) -> Result<i64, StoreError> {
        self.read(move |connection| {
            let mut sum = connection
                .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM owner_bytes WHERE owner = ?1")?;
            Ok(sum.query_row([owner], |row| row.get(0))?)
        })
        .await
    }
}

/// Forgets runs of an owner that have ended, the first end first, if those that are kept and these bytes are more than `most`: until a
/// tenth of that is free.
pub(super) fn forget_runs(
    transaction: &Transaction<'_>,
    owner: &str,
    more: i64,
    most: i64,
) -> Result<(), Failure> {
    let held: i64 = transaction
        .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM owner_bytes WHERE owner = ?1 AND kind = 'runs'")?
        .query_row([owner], |row| row.get(0))?;
    let wanted = held.saturating_add(more);
    if wanted <= most {
        return Ok(());
    }
    let mut over = wanted - (most - most / 10);
    let mut gone: Vec<String> = Vec::new();
    let mut ended = transaction.prepare_cached(ENDED)?;
    let mut rows = ended.query(params![owner])?;
    while over > 0
        && let Some(row) = rows.next()?
    {
        gone.push(row.get(0)?);
        over -= row.get::<_, i64>(1)?;
    }
    for run in &gone {
        for table in [
            "DELETE FROM workflow_steps WHERE run = ?1",
            "DELETE FROM workflow_runs WHERE id = ?1",
        ] {
            transaction.prepare_cached(table)?.execute([run])?;
        }
    }
    Ok(())
}
