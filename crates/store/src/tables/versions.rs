//! Published versions of skills and workflows: each version of each name is there once, within the quota of its owner.

use crate::failure::Failure;
use crate::sql::{Param, Sql, check_member};

/// The number and size of the versions that an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VersionQuota {
    /// The number of versions.
    pub versions: i64,
    /// The sum of the bytes that count for the owner.
    pub bytes: i64,
}

/// The result of adding a version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VersionAdded {
    /// The version is stored.
    Added,
    /// This version was there already, with this digest.
    Present(String),
    /// The owner has as much as it may.
    Full,
}

/// The reason why a version was not added. `key` has its owner, name and version.
pub(super) async fn refused(
    sql: &impl Sql,
    digest: &'static str,
    key: &[Param<'_>],
) -> Result<VersionAdded, Failure> {
    if let Some(digest) = sql.one(digest, key).await? {
        return Ok(VersionAdded::Present(digest));
    }
    check_member(sql).await?;
    Ok(VersionAdded::Full)
}
