//! The rows of skills.

use rusqlite::{OptionalExtension as _, Row, named_params, params};

use super::SqliteStore;
use super::versions::{NewVersion, delete_versions, not_addable};
use crate::{SkillBrief, SkillRecord, StoreError, VersionAdded, VersionQuota};

const TABLE: &str = "skills";

const INSERT: &str = "
INSERT INTO skills (owner, name, version, kind, description, digest, bytes, manifest, files, published_by, published_micros)
VALUES (:owner, :name, :version, :kind, :description, :digest, :bytes, :manifest, :files, :published_by, :published_micros)";

const BRIEF: &str = "owner, name, version, kind, description, digest, bytes, published_by, published_micros";

impl SqliteStore {
    pub(super) async fn do_add_skill(
        &self,
        record: SkillRecord,
        quota: VersionQuota,
    ) -> Result<VersionAdded, StoreError> {
        self.write(move |transaction| {
            let SkillRecord {
                brief,
                manifest,
                files,
            } = record;
            let new = NewVersion {
                owner: &brief.owner,
                name: &brief.name,
                version: &brief.version,
                bytes: brief.bytes,
            };
            if let Some(reason) = not_addable(transaction, TABLE, &new, quota)? {
                return Ok(reason);
            }
            transaction.prepare_cached(INSERT)?.execute(named_params! {
                ":owner": brief.owner,
                ":name": brief.name,
                ":version": brief.version,
                ":kind": brief.kind,
                ":description": brief.description,
                ":digest": brief.digest,
                ":bytes": brief.bytes,
                ":manifest": manifest,
                ":files": files,
                ":published_by": brief.published_by,
                ":published_micros": brief.published_micros,
            })?;
            Ok(VersionAdded::Added)
        })
        .await
    }

    pub(super) async fn do_skill(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> Result<Option<SkillRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection
                .prepare_cached("SELECT * FROM skills WHERE owner = ?1 AND name = ?2 AND version = ?3")?;
            let row = select.query_row([&owner, &name, &version], |row| {
                Ok(SkillRecord {
                    brief: brief(row)?,
                    manifest: row.get("manifest")?,
                    files: row.get("files")?,
                })
            });
            Ok(row.optional()?)
        })
        .await
    }

    pub(super) async fn do_skills(
        &self,
        owner: String,
        name: Option<String>,
    ) -> Result<Vec<SkillBrief>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {BRIEF} FROM skills WHERE owner = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name, version"
            ))?;
            let rows = select.query_map(params![owner, name], brief)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_delete_skill(
        &self,
        owner: String,
        name: String,
        version: Option<String>,
    ) -> Result<usize, StoreError> {
        self.write(move |transaction| delete_versions(transaction, TABLE, &owner, &name, version.as_deref()))
            .await
    }
}

fn brief(row: &Row<'_>) -> Result<SkillBrief, rusqlite::Error> {
    Ok(SkillBrief {
        owner: row.get("owner")?,
        name: row.get("name")?,
        version: row.get("version")?,
        kind: row.get("kind")?,
        description: row.get("description")?,
        digest: row.get("digest")?,
        bytes: row.get("bytes")?,
        published_by: row.get("published_by")?,
        published_micros: row.get("published_micros")?,
    })
}
