//! The rows of workflows, which all replicas share.

use tokio_postgres::Row;

use super::connection::Param;
use super::failure::Failure;
use super::{PostgresStore, versions};
use crate::{StoreError, VersionAdded, VersionQuota, WorkflowBrief, WorkflowRecord};

/// Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = "
WITH added AS (
    INSERT INTO himalia.workflows (owner, name, version, description, digest, bytes, published_by, published_micros)
    SELECT $3, $4, $5, $6, $7, $8, $10, $11
    WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
      AND (SELECT count(*) < $12::bigint AND coalesce(sum(bytes), 0) + $8::bigint <= $13::bigint
           FROM himalia.workflows WHERE owner = $3)
    ON CONFLICT (owner, name, version) DO NOTHING
    RETURNING owner, digest)
INSERT INTO himalia.workflow_definitions (owner, digest, definition) SELECT owner, digest, $9::text FROM added
ON CONFLICT (owner, digest) DO UPDATE SET digest = excluded.digest";

const DIGEST: &str = "SELECT digest FROM himalia.workflows WHERE owner = $1 AND name = $2 AND version = $3";

const ONE: &str = "
SELECT * FROM himalia.workflows JOIN himalia.workflow_definitions USING (owner, digest)
WHERE owner = $1 AND name = $2 AND version = $3";

const DEFINITION: &str = "
SELECT definition FROM himalia.workflow_definitions WHERE owner = $1 AND digest = $2";

/// Definitions that neither a workflow nor a run has. One that gets a run at the same time is kept by the reference of the run.
pub(super) const FORGET_DEFINITIONS: &str = "
DELETE FROM himalia.workflow_definitions held
WHERE NOT EXISTS (SELECT 1 FROM himalia.workflows one WHERE one.owner = held.owner AND one.digest = held.digest)
  AND NOT EXISTS (SELECT 1 FROM himalia.workflow_runs run WHERE run.owner = held.owner AND run.digest = held.digest)";

const LIST: &str = "
SELECT owner, name, version, description, digest, bytes, published_by, published_micros
FROM himalia.workflows WHERE owner = $1 AND ($2::text IS NULL OR name = $2) ORDER BY name, version";

const DELETE: &str = "
DELETE FROM himalia.workflows
WHERE owner = $3 AND name = $4 AND ($5::text IS NULL OR version = $5)
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

impl PostgresStore {
    pub(super) async fn do_add_workflow(
        &self,
        record: WorkflowRecord,
        quota: VersionQuota,
    ) -> Result<VersionAdded, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let brief = &record.brief;
                let rows = link
                    .execute(
                        ADD,
                        &[
                            &replica,
                            &me.epoch,
                            &brief.owner,
                            &brief.name,
                            &brief.version,
                            &brief.description,
                            &brief.digest,
                            &brief.bytes,
                            &record.definition,
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

    pub(super) async fn do_workflow(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> Result<Option<WorkflowRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(ONE, &[&owner, &name, &version]).await?;
                let record = |row: &Row| -> Result<WorkflowRecord, Failure> {
                    Ok(WorkflowRecord {
                        brief: brief(row)?,
                        definition: row.try_get("definition")?,
                    })
                };
                rows.first().map(record).transpose()
            })
            .await
    }

    pub(super) async fn do_workflows(
        &self,
        owner: String,
        name: Option<String>,
    ) -> Result<Vec<WorkflowBrief>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(LIST, &[&owner, &name]).await?;
                rows.iter().map(brief).collect()
            })
            .await
    }

    pub(super) async fn do_delete_workflow(
        &self,
        owner: String,
        name: String,
        version: Option<String>,
    ) -> Result<usize, StoreError> {
        let deleted = self.delete_versions(DELETE, owner, name, version).await?;
        self.forget_definitions().await?;
        Ok(deleted)
    }

    async fn forget_definitions(&self) -> Result<(), StoreError> {
        self.any_worker()?
            .run(|link| async move { link.execute(FORGET_DEFINITIONS, &[]).await.map(drop) })
            .await
    }

    pub(super) async fn do_workflow_definition(
        &self,
        owner: String,
        digest: String,
    ) -> Result<Option<String>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(DEFINITION, &[&owner, &digest]).await?;
                Ok(rows.first().map(|row| row.try_get("definition")).transpose()?)
            })
            .await
    }
}

fn brief(row: &Row) -> Result<WorkflowBrief, Failure> {
    Ok(WorkflowBrief {
        owner: row.try_get("owner")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        description: row.try_get("description")?,
        digest: row.try_get("digest")?,
        bytes: row.try_get("bytes")?,
        published_by: row.try_get("published_by")?,
        published_micros: row.try_get("published_micros")?,
    })
}
