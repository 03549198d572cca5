//! The rows of workflows.

use rusqlite::{OptionalExtension as _, Row, Transaction, named_params, params};

use super::SqliteStore;
use super::failure::Failure;
use super::versions::{NewVersion, delete_versions, not_addable};
use crate::{StoreError, VersionAdded, VersionQuota, WorkflowBrief, WorkflowRecord};

const TABLE: &str = "workflows";

const INSERT: &str = "
INSERT INTO workflows (owner, name, version, description, digest, bytes, published_by, published_micros)
VALUES (:owner, :name, :version, :description, :digest, :bytes, :published_by, :published_micros)";

const INSERT_DEFINITION: &str = "
INSERT INTO workflow_definitions (owner, digest, definition) VALUES (?1, ?2, ?3) ON CONFLICT (owner, digest) DO NOTHING";

const FORGET_DEFINITIONS: &str = "
DELETE FROM workflow_definitions AS held
WHERE NOT EXISTS (SELECT 1 FROM workflows one WHERE one.owner = held.owner AND one.digest = held.digest)
    AND NOT EXISTS (SELECT 1 FROM workflow_runs run WHERE run.owner = held.owner AND run.digest = held.digest)";

const BRIEF: &str = "owner, name, version, description, digest, bytes, published_by, published_micros";

impl SqliteStore {
    pub(super) async fn do_add_workflow(
        &self,
        record: WorkflowRecord,
        quota: VersionQuota,
    ) -> Result<VersionAdded, StoreError> {
        self.write(move |transaction| {
            let WorkflowRecord { brief, definition } = record;
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
                ":description": brief.description,
                ":digest": brief.digest,
                ":bytes": brief.bytes,
                ":published_by": brief.published_by,
                ":published_micros": brief.published_micros,
            })?;
            transaction.prepare_cached(INSERT_DEFINITION)?.execute([
                &brief.owner,
                &brief.digest,
                &definition,
            ])?;
            Ok(VersionAdded::Added)
        })
        .await
    }

    pub(super) async fn do_workflow(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> Result<Option<WorkflowRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT * FROM workflows JOIN workflow_definitions USING (owner, digest)
                 WHERE owner = ?1 AND name = ?2 AND version = ?3",
            )?;
            let row = select.query_row([&owner, &name, &version], |row| {
                Ok(WorkflowRecord {
                    brief: brief(row)?,
                    definition: row.get("definition")?,
                })
            });
            Ok(row.optional()?)
        })
        .await
    }

    pub(super) async fn do_workflows(
        &self,
        owner: String,
        name: Option<String>,
    ) -> Result<Vec<WorkflowBrief>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(&format!(
                "SELECT {BRIEF} FROM workflows WHERE owner = ?1 AND (?2 IS NULL OR name = ?2) ORDER BY name, version"
            ))?;
            let rows = select.query_map(params![owner, name], brief)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_delete_workflow(
        &self,
        owner: String,
        name: String,
        version: Option<String>,
    ) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            let deleted = delete_versions(transaction, TABLE, &owner, &name, version.as_deref())?;
            forget_definitions(transaction)?;
            Ok(deleted)
        })
        .await
    }

    pub(super) async fn do_workflow_definition(
        &self,
        owner: String,
        digest: String,
    ) -> Result<Option<String>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT definition FROM workflow_definitions WHERE owner = ?1 AND digest = ?2",
            )?;
            Ok(select.query_row([&owner, &digest], |row| row.get(0)).optional()?)
        })
        .await
    }
}

/// Forgets definitions that neither a workflow nor a run has.
pub(super) fn forget_definitions(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.prepare_cached(FORGET_DEFINITIONS)?.execute([])?;
    Ok(())
}

fn brief(row: &Row<'_>) -> Result<WorkflowBrief, rusqlite::Error> {
    Ok(WorkflowBrief {
        owner: row.get("owner")?,
        name: row.get("name")?,
        version: row.get("version")?,
        description: row.get("description")?,
        digest: row.get("digest")?,
        bytes: row.get("bytes")?,
        published_by: row.get("published_by")?,
        published_micros: row.get("published_micros")?,
    })
}
