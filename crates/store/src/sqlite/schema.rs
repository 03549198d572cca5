//! Brings a file of an earlier version to this version.

use rusqlite::{Connection, TransactionBehavior};

use crate::failure::Failure;
use crate::sql::Dialect;
use crate::tables::migrations;

/// "HMLA": the mark of files of version 1 and later.
pub(super) const APPLICATION_ID: i64 = 0x484d_4c41;

/// "HIMA": the mark of files that builds before version 1 made. Their versions are another numbering.
pub(super) const DEVELOPMENT_APPLICATION_ID: i64 = 0x4849_4d41;

/// The version to which steps lead.
pub(super) fn newest(steps: &[&str]) -> i64 {
    i64::try_from(steps.len()).unwrap_or(i64::MAX)
}

/// The schema version of an open file.
pub(super) fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The application id of an open file; 0 in an unmarked one.
pub(super) fn application_id(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// Applies the steps that are missing, each with its version number in one transaction, so that a crash
/// leaves one version or the next.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> Result<(), Failure> {
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let at = version(&transaction)?;
        let Some(step) = usize::try_from(at).ok().and_then(|at| steps.get(at)) else {
            debug_assert!(at >= newest(steps));
            return Ok(());
        };
        transaction.execute_batch(&migrations::expand(step, Dialect::Sqlite))?;
        transaction.pragma_update(None, "user_version", at + 1)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()?;
    }
}
