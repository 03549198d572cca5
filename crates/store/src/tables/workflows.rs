//! Workflows, each version of each name once. A definition is stored once for its versions and their runs, by its address.

use super::versions::{self, refused, versions};
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Record as _, Sql, changed, count, params, record};
use crate::{VersionAdded, VersionQuota};

/// One row of `workflows`, with its definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRecord {
    /// The columns that lists have.
    pub brief: WorkflowBrief,
    /// The definition, JSON.
    pub definition: String,
}

/// The columns of a row of `workflows` that lists have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowBrief {
    /// A tenant, or the operator.
    pub owner: String,
    /// The name, which all versions share.
    pub name: String,
    /// The version, one of that name.
    pub version: String,
    /// A text for people and models that look for a workflow.
    pub description: String,
    /// The address of its content.
    pub digest: String,
    /// Bytes that count for the owner.
    pub bytes: i64,
    /// The principal that published it.
    pub published_by: String,
    /// The time of publication, in microseconds since the Unix epoch.
    pub published_micros: i64,
}

record!(WorkflowBrief in "workflows" {
    owner, name, version, description, digest, bytes, published_by, published_micros
});

record!(WorkflowRecord in "workflows" { brief as .., definition });

part! {
    /// Published workflows.
    WorkflowStore {
        /// Adds a version of a workflow, if its owner has less than the quota. A version that is there stays as it is.
        write fn add_workflow(record: WorkflowRecord, quota: VersionQuota) -> VersionAdded;

        /// One version of a workflow.
        read fn workflow(owner: String, name: String, version: String) -> Option<WorkflowRecord> = one(ONE, owner, name, version);

        /// All versions of an owner's workflows, or of the workflow of one name, by name.
        read fn workflows(owner: String, name: Option<String>) -> Vec<WorkflowBrief>;

        /// Forgets one version of a workflow, or all; gives back how many.
        write fn delete_workflow(owner: String, name: String, version: Option<String>) -> usize;

        /// A definition by its address, as long as a workflow or a run of its owner has it.
        read fn workflow_definition(owner: String, digest: String) -> Option<String> = one(DEFINITION, owner, digest);
    }
}

/// Two replicas that add at once can exceed the quota, each by one. A definition that is there is locked against its deletion.
const ADD: &str = "
INSERT INTO himalia.workflows (owner, name, version, description, digest, bytes, published_by, published_micros)
SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE {member}
  AND (SELECT count(*) < $10 AND coalesce(sum(bytes), 0) + CAST($6 AS bigint) <= CAST($11 AS bigint)
       FROM himalia.workflows WHERE owner = $1)
ON CONFLICT (owner, name, version) DO NOTHING;
INSERT INTO himalia.workflow_definitions (owner, digest, definition) SELECT $1, $5, $9 WHERE {before}
ON CONFLICT (owner, digest) DO UPDATE SET digest = excluded.digest";

const DIGEST: &str = "SELECT digest FROM himalia.workflows WHERE owner = $1 AND name = $2 AND version = $3";

const ONE: &str = "
SELECT * FROM himalia.workflows JOIN himalia.workflow_definitions USING (owner, digest)
WHERE owner = $1 AND name = $2 AND version = $3";

pub(crate) const LISTS: [&str; 2] = versions!(
    "workflows",
    "owner, name, version, description, digest, bytes, published_by, published_micros"
);

const DELETE: &str = "
DELETE FROM himalia.workflows WHERE owner = $1 AND name = $2 AND (version = $3 OR $3 IS NULL) AND {member}";

const DEFINITION: &str = "
SELECT definition FROM himalia.workflow_definitions WHERE owner = $1 AND digest = $2";

/// Definitions that neither a workflow nor a run has. One that gets a run at the same time is kept by the reference of the run.
const FORGET_DEFINITIONS: &str = "
DELETE FROM himalia.workflow_definitions AS held
WHERE NOT EXISTS (SELECT 1 FROM himalia.workflows one WHERE one.owner = held.owner AND one.digest = held.digest)
  AND NOT EXISTS (SELECT 1 FROM himalia.workflow_runs run WHERE run.owner = held.owner AND run.digest = held.digest)
  AND {member}";

async fn add_workflow(
    sql: &impl Sql,
    record: WorkflowRecord,
    quota: VersionQuota,
) -> Result<VersionAdded, Failure> {
    let brief = &record.brief;
    let mut values = record.values();
    values.extend(params![quota.versions, quota.bytes]);
    if changed(sql, ADD, &values).await? {
        return Ok(VersionAdded::Added);
    }
    refused(sql, DIGEST, params![brief.owner, brief.name, brief.version]).await
}

async fn workflows(
    sql: &impl Sql,
    owner: String,
    name: Option<String>,
) -> Result<Vec<WorkflowBrief>, Failure> {
    versions::list(sql, LISTS, owner, name).await
}

async fn delete_workflow(
    sql: &impl Sql,
    owner: String,
    name: String,
    version: Option<String>,
) -> Result<usize, Failure> {
    let deleted = count(sql, DELETE, params![owner, name, version]).await?;
    forget_definitions(sql).await?;
    Ok(deleted)
}

pub(super) async fn forget_definitions(sql: &impl Sql) -> Result<(), Failure> {
    sql.execute(FORGET_DEFINITIONS, &[]).await.map(drop)
}
