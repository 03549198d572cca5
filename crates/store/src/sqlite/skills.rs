//! The rows of skills.

use rusqlite::{OptionalExtension as _, Row, named_params, params};

use super::SqliteStore;
use crate::{SkillBrief, SkillRecord, StoreError, VersionAdded, VersionQuota};

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
            let key = params![brief.owner, brief.name, brief.version];
            let held: Option<String> = transaction
                .prepare_cached("SELECT digest FROM skills WHERE owner = ?1 AND name = ?2 AND version = ?3")?
                .query_row(key, |row| row.get(0))
                .optional()?;
            if let Some(digest) = held {
                return Ok(VersionAdded::Present(digest));
            }
            let (versions, bytes): (i64, i64) = transaction
                .prepare_cached("SELECT count(*), coalesce(sum(bytes), 0) FROM skills WHERE owner = ?1")?
                .query_row([&brief.owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if versions >= quota.versions || bytes.saturating_add(brief.bytes) > quota.bytes {
                return Ok(VersionAdded::Full);
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
        self.write(move |transaction| {
            let mut delete = transaction.prepare_cached(
                "DELETE FROM skills WHERE owner = ?1 AND name = ?2 AND (?3 IS NULL OR version = ?3)",
            )?;
            Ok(delete.execute(params![owner, name, version])?)
        })
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
