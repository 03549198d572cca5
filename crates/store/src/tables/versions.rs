//! Published versions of skills and workflows: each version of each name is there once, within the quota of its owner.

use crate::failure::Failure;
use crate::sql::{FromRow, Param, Sql, check_member, params};

/// The number and size of the versions that an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VersionQuota {
    pub versions: i64,
    /// The sum of the bytes that count for the owner.
    pub bytes: i64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VersionAdded {
    /// The version is stored.
    Added,
    /// This version was there already, with this digest.
    Present(String),
    /// The owner has as much as it may.
    Full,
}

/// Statements that list the versions of an owner in a table, and those of one name. The second has a condition of its own, so that the
/// index finds the name: an owner can have many other versions.
macro_rules! versions {
    ($table:literal, $columns:literal) => {
        [
            concat!(
                "SELECT ",
                $columns,
                " FROM himalia.",
                $table,
                " WHERE owner = $1 ORDER BY name, version"
            ),
            concat!(
                "SELECT ",
                $columns,
                " FROM himalia.",
                $table,
                " WHERE owner = $1 AND name = $2 ORDER BY name, version"
            ),
        ]
    };
}
pub(super) use versions;

/// The versions of an owner, or those of one name, by the statements of [`versions`].
pub(super) async fn list<T: FromRow>(
    sql: &impl Sql,
    [all, named]: [&'static str; 2],
    owner: String,
    name: Option<String>,
) -> Result<Vec<T>, Failure> {
    match name {
        Some(name) => sql.list(named, params![owner, name]).await,
        None => sql.list(all, params![owner]).await,
    }
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
