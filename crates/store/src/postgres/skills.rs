//! The rows of skills, which all replicas share.

use tokio_postgres::Row;

use super::connection::Param;
use super::failure::Failure;
use super::{PostgresStore, versions};
use crate::{SkillBrief, SkillRecord, StoreError, VersionAdded, VersionQuota};

/// Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = "
INSERT INTO himalia.skills
    (owner, name, version, kind, description, digest, bytes, manifest, files, published_by, published_micros)
SELECT $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND (SELECT count(*) < $14::bigint AND coalesce(sum(bytes), 0) + $9::bigint <= $15::bigint FROM himalia.skills WHERE owner = $3)
ON CONFLICT (owner, name, version) DO NOTHING";

const DIGEST: &str = "SELECT digest FROM himalia.skills WHERE owner = $1 AND name = $2 AND version = $3";

const ONE: &str = "SELECT * FROM himalia.skills WHERE owner = $1 AND name = $2 AND version = $3";

const LIST: &str = "
SELECT owner, name, version, kind, description, digest, bytes, published_by, published_micros
FROM himalia.skills WHERE owner = $1 AND ($2::text IS NULL OR name = $2) ORDER BY name, version";

const DELETE: &str = "
DELETE FROM himalia.skills
WHERE owner = $3 AND name = $4 AND ($5::text IS NULL OR version = $5)
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

impl PostgresStore {
    pub(super) async fn do_add_skill(
        &self,
        record: SkillRecord,
        quota: VersionQuota,
    ) -> Result<VersionAdded, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let brief = &record.brief;
                let files: &[u8] = &record.files;
                let rows = link
                    .execute(
                        ADD,
                        &[
                            &replica,
                            &me.epoch,
                            &brief.owner,
                            &brief.name,
                            &brief.version,
                            &brief.kind,
                            &brief.description,
                            &brief.digest,
                            &brief.bytes,
                            &record.manifest,
                            &files,
                            &brief.published_by,
                            &brief.published_micros,
                            &quota.versions,
                            &quota.bytes,
                        ],
                    )
                    .await?;
                let key: &[Param<'_>] = &[&brief.owner, &brief.name, &brief.version];
                versions::added(&link, &me, rows, DIGEST, key).await
            })
            .await
    }

    pub(super) async fn do_skill(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> Result<Option<SkillRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(ONE, &[&owner, &name, &version]).await?;
                let record = |row: &Row| -> Result<SkillRecord, Failure> {
                    Ok(SkillRecord {
                        brief: brief(row)?,
                        manifest: row.try_get("manifest")?,
                        files: row.try_get("files")?,
                    })
                };
                rows.first().map(record).transpose()
            })
            .await
    }

    pub(super) async fn do_skills(
        &self,
        owner: String,
        name: Option<String>,
    ) -> Result<Vec<SkillBrief>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(LIST, &[&owner, &name]).await?;
                rows.iter().map(brief).collect()
            })
            .await
    }

    pub(super) async fn do_delete_skill(
        &self,
        owner: String,
        name: String,
        version: Option<String>,
    ) -> Result<usize, StoreError> {
        self.delete_versions(DELETE, owner, name, version).await
    }
}

fn brief(row: &Row) -> Result<SkillBrief, Failure> {
    Ok(SkillBrief {
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        kind: row.try_get("kind")?,
        description: row.try_get("description")?,
        digest: row.try_get("digest")?,
        bytes: row.try_get("bytes")?,
        published_by: row.try_get("published_by")?,
        published_micros: row.try_get("published_micros")?,
    })
}
