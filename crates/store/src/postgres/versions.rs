//! What the tables of skills and of workflows have in common: each version of each name once, within the quota of its owner.

use super::connection::{Link, Param};
use super::failure::Failure;
use super::membership::check_member;
use super::{Me, PostgresStore};
use crate::{StoreError, VersionAdded};

/// What came of a statement that has added a version, or not.
pub(super) async fn added(
    link: &Link,
    me: &Me,
    rows: u64,
    digest: &'static str,
    key: &[Param<'_>],
) -> Result<VersionAdded, Failure> {
    if rows == 1 {
        return Ok(VersionAdded::Added);
    }
    if let Some(row) = link.query(digest, key).await?.first() {
        return Ok(VersionAdded::Present(row.try_get("digest")?));
    }
    check_member(link, me).await?;
    Ok(VersionAdded::Full)
}

impl PostgresStore {
    /// Deletes a version, or all of them, by a statement of the table; how many.
    pub(super) async fn delete_versions(
        &self,
        delete: &'static str,
        owner: String,
        name: String,
        version: Option<String>,
    ) -> Result<usize, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let deleted = link
                    .execute(delete, &[&replica, &me.epoch, &owner, &name, &version])
                    .await?;
                Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
            })
            .await
    }
}
