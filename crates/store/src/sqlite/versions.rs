//! What the tables of skills and of workflows have in common: each version of each name once, within the quota of its owner.

use rusqlite::{OptionalExtension as _, Transaction, params};

use super::failure::Failure;
use crate::{VersionAdded, VersionQuota};

/// A version that is to be added to a table.
pub(super) struct NewVersion<'a> {
    pub(super) owner: &'a str,
    pub(super) name: &'a str,
    pub(super) version: &'a str,
    pub(super) bytes: i64,
}

/// Why a version cannot be added. `None`: it can.
pub(super) fn not_addable(
    transaction: &Transaction<'_>,
    table: &'static str,
    new: &NewVersion<'_>,
    quota: VersionQuota,
) -> Result<Option<VersionAdded>, Failure> {
    let held: Option<String> = transaction
        .prepare_cached(&format!(
            "SELECT digest FROM {table} WHERE owner = ?1 AND name = ?2 AND version = ?3"
        ))?
        .query_row([new.owner, new.name, new.version], |row| row.get(0))
        .optional()?;
    if let Some(digest) = held {
        return Ok(Some(VersionAdded::Present(digest)));
    }
    let (versions, bytes): (i64, i64) = transaction
        .prepare_cached(&format!(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM {table} WHERE owner = ?1"
        ))?
        .query_row([new.owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let full = versions >= quota.versions || bytes.saturating_add(new.bytes) > quota.bytes;
    Ok(full.then_some(VersionAdded::Full))
}

/// Deletes a version, or all of them; how many.
pub(super) fn delete_versions(
    transaction: &Transaction<'_>,
    table: &'static str,
    owner: &str,
    name: &str,
    version: Option<&str>,
) -> Result<usize, Failure> {
    let mut delete = transaction.prepare_cached(&format!(
        "DELETE FROM {table} WHERE owner = ?1 AND name = ?2 AND (?3 IS NULL OR version = ?3)"
    ))?;
    Ok(delete.execute(params![owner, name, version])?)
}
