//! Runs of workflows.
//!
//! A run names the gateway epoch of the process that has it. A process takes runs whose process has no valid lease any more, and writes
//! only to runs that it has.

use super::callbacks::{has_room, is_open};
use super::owner_bytes;
use super::workflows::forget_definitions;
use crate::NewCallback;
use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, changed, check_member, count, exists, params, record};

/// One row of `workflow_runs`, with its inputs and outputs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRunRecord {
    /// The columns that lists have.
    pub brief: WorkflowRunBrief,
    /// The principal on whose behalf it runs, JSON.
    pub principal: String,
    /// The key of its start, one of its owner.
    pub start_key: Option<String>,
    /// The text that a repeated start with that key must equal.
    pub start_print: String,
    /// The inputs, JSON.
    pub inputs: String,
    /// The outputs, JSON.
    pub outputs: Option<String>,
}

/// The columns of a row of `workflow_runs` that lists have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRunBrief {
    pub id: String,
    /// A tenant, or the operator.
    pub owner: String,
    pub workflow: String,
    pub version: String,
    /// The address of the definition that it runs, which is kept as long as the run. Its workflow may be deleted meanwhile.
    pub digest: String,
    /// `running`, or how it ended.
    pub status: String,
    /// The reason why it failed, JSON.
    pub error: Option<String>,
    /// The principal that started it.
    pub started_by: String,
    /// The principal that wants it ended.
    pub cancelled_by: Option<String>,
    /// The time of its start, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// The time of its end.
    pub ended_micros: Option<i64>,
}

/// The status of a run that has not ended.
pub const RUNNING: &str = "running";

/// The number and size of the runs that an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WorkflowRunQuota {
    /// The number of runs that have not ended.
    pub running: i64,
    /// The number of runs that are kept.
    pub kept: i64,
    /// Bytes of all of them, from which on the runs that ended first are forgotten until a tenth of it is free.
    pub bytes: i64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorkflowRunAdded {
    /// The run is stored, and this replica has it.
    Added,
    /// A run with its key was there already.
    Present {
        id: String,
        /// [`WorkflowRunRecord::start_print`].
        print: String,
    },
    /// The owner has as many runs as it may.
    Full,
    /// The owner has as many callbacks as it may.
    NoCallback,
    /// The workflow was deleted meanwhile.
    NoDefinition,
}

/// The runs that are listed, the latest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkflowRunFilter {
    /// Only runs of this workflow.
    pub workflow: Option<String>,
    /// Only runs with this status.
    pub status: Option<String>,
    /// Only runs that come after the run with this start and this id.
    pub after: Option<(i64, String)>,
    /// At most so many.
    pub limit: i64,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRunEnd {
    /// The status from now on.
    pub status: String,
    /// The outputs, JSON.
    pub outputs: Option<String>,
    /// The reason why it failed, JSON.
    pub error: Option<String>,
    /// The time of its end, in microseconds since the Unix epoch.
    pub ended_micros: i64,
}

record!(WorkflowRunBrief in "workflow_runs" {
    id, owner, workflow, version, digest, status, error, started_by, cancelled_by, created_micros, ended_micros
});

record!(WorkflowRunRecord in "workflow_runs" {
    brief as .., principal, start_key, start_print, inputs, outputs
});

part! {
    /// Runs of workflows.
    WorkflowRunStore {
        /// Adds a run of a workflow, which this process has then, if its owner has fewer than the quota and none has its key. Where the
        /// quota of bytes is exceeded, runs that have ended are forgotten. Its callback is added with it: both or neither.
        write fn add_workflow_run(record: WorkflowRunRecord, quota: WorkflowRunQuota, callback: Option<NewCallback>) -> WorkflowRunAdded;

        /// One run of a workflow, of any owner.
        read fn workflow_run(id: String) -> Option<WorkflowRunRecord> = one(ONE, id);

        /// The run of an owner with this idempotency key.
        read fn workflow_run_of(owner: String, key: String) -> Option<WorkflowRunRecord> = one(OF_KEY, owner, key);

        /// Runs of an owner, the latest first.
        read fn workflow_runs(owner: String, filter: WorkflowRunFilter) -> Vec<WorkflowRunBrief>;

        /// Notes that a run is to end; `false` when it has ended.
        write fn cancel_workflow_run(run: String, by: String) -> bool = changed(CANCEL, run, by);

        /// Ends a run that this process has; `false` when it does not have it, or when the run had ended.
        write fn end_workflow_run(run: String, end: WorkflowRunEnd) -> bool;

        /// Takes the runs that continue and whose process has gone; gives back all that this process has, oldest first.
        write fn claim_workflow_runs() -> Vec<String>;

        /// Gives a run that this process has to the living replica of an epoch, which takes it when it claims runs the next time. `false`:
        /// this process does not have it, or there is no such replica.
        write fn hand_over_workflow_run(run: String, epoch: u64) -> bool;

        /// Forgets runs that ended before `micros`; gives back how many.
        write fn forget_workflow_runs(micros: i64) -> usize;
    }
}

/// Adds a run, under one more condition than those of the replica and the quota.
macro_rules! add {
    ($($condition:tt)*) => {
        concat!(
            "
INSERT INTO himalia.workflow_runs (id, owner, workflow, version, digest, status, principal, started_by,
    start_key, start_print, inputs, created_micros, epoch)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, {epoch}
WHERE {member}
  AND EXISTS (SELECT 1 FROM himalia.workflow_definitions WHERE owner = $2 AND digest = $5)
  AND (SELECT count(*) < $13 AND count(*) FILTER (WHERE status = 'running') < $14
       FROM himalia.workflow_runs WHERE owner = $2)",
            $($condition)*
            "
ON CONFLICT (owner, start_key) WHERE start_key IS NOT NULL DO NOTHING"
        )
    };
}

/// Two replicas that add at once can exceed the quota, each by one.
const ADD: &str = add!();

/// The same with the callback of the run: all rows or none.
const ADD_WITH_CALLBACK: &str = concat!(
    add!(
        "
  AND (SELECT count(*) < $23 AND count(*) FILTER (WHERE ",
        is_open!(),
        ") < $24
       FROM himalia.triggers one WHERE one.owner = $2 AND one.kind = $16)",
    ),
    ";
INSERT INTO himalia.triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
SELECT $15, $16, $2, $17, $18, $19, $20, NULL, $21, $22 WHERE {before};
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $25, $15, $2, $26, $27, $28, $29, $30, '' WHERE {before}"
);

const DEFINED: &str = "SELECT 1 FROM himalia.workflow_definitions WHERE owner = $1 AND digest = $2";

const ONE: &str = "SELECT * FROM himalia.workflow_runs WHERE id = $1";

const OF_KEY: &str = "SELECT * FROM himalia.workflow_runs WHERE owner = $1 AND start_key = $2";

const LIST: &str = "
SELECT id, owner, workflow, version, digest, status, error, started_by, cancelled_by, created_micros, ended_micros
FROM himalia.workflow_runs WHERE owner = $1 AND (workflow = $2 OR $2 IS NULL) AND (status = $3 OR $3 IS NULL)
    AND (created_micros < $4 OR (created_micros = $4 AND id < $5) OR $4 IS NULL)
ORDER BY created_micros DESC, id DESC LIMIT $6";

const CANCEL: &str = "
UPDATE himalia.workflow_runs SET cancelled_by = coalesce(cancelled_by, $2)
WHERE id = $1 AND status = 'running' AND {member}";

const END: &str = "
UPDATE himalia.workflow_runs SET status = $2, outputs = $3, error = $4, ended_micros = $5
WHERE id = $1 AND epoch = {epoch} AND status = 'running' AND {member}";

/// In a file that no other gateway has open, every run that continues is of this process.
const TAKE: &str = "
UPDATE himalia.workflow_runs AS run SET epoch = {epoch} WHERE status = 'running' AND epoch <> {epoch} AND {member}
{postgres   AND NOT EXISTS (SELECT 1 FROM himalia.replicas its WHERE its.epoch = run.epoch AND its.lease_until > clock_timestamp())}";

pub(crate) const MINE: &str = "
SELECT id FROM himalia.workflow_runs WHERE status = 'running' AND epoch = {epoch} ORDER BY created_micros, id";

const HAND_OVER: &str = "
UPDATE himalia.workflow_runs SET epoch = $2 WHERE id = $1 AND epoch = {epoch} AND status = 'running' AND {member}
  AND {sqlite false}{postgres EXISTS (SELECT 1 FROM himalia.replicas WHERE epoch = $2 AND lease_until > clock_timestamp())}";

const FORGET: &str = "
DELETE FROM himalia.workflow_steps WHERE run IN (SELECT id FROM himalia.workflow_runs WHERE ended_micros < $1) AND {member};
DELETE FROM himalia.workflow_runs WHERE ended_micros < $1 AND {member}";

async fn add_workflow_run(
    sql: &impl Sql,
    record: WorkflowRunRecord,
    quota: WorkflowRunQuota,
    callback: Option<NewCallback>,
) -> Result<WorkflowRunAdded, Failure> {
    let brief = &record.brief;
    let mut values = params![
        brief.id,
        brief.owner,
        brief.workflow,
        brief.version,
        brief.digest,
        brief.status,
        record.principal,
        brief.started_by,
        record.start_key,
        record.start_print,
        record.inputs,
        brief.created_micros,
        quota.kept,
        quota.running,
    ]
    .to_vec();
    if let Some(NewCallback { trigger, run, quota }) = &callback {
        values.extend(params![
            trigger.id,
            trigger.kind,
            trigger.name,
            trigger.definition,
            trigger.key_id,
            trigger.sealed,
            trigger.version,
            trigger.created_micros,
            quota.kept,
            quota.open,
            run.id,
            run.key,
            run.due_micros,
            run.state,
            run.not_before_micros,
            run.detail,
        ]);
    }
    let add = match &callback {
        Some(_) => ADD_WITH_CALLBACK,
        None => ADD,
    };
    if changed(sql, add, &values).await? {
        owner_bytes::forget_runs(sql, &brief.owner, quota.bytes).await?;
        return Ok(WorkflowRunAdded::Added);
    }
    let present: Option<WorkflowRunRecord> = sql.one(OF_KEY, params![brief.owner, record.start_key]).await?;
    if let Some(present) = present {
        return Ok(WorkflowRunAdded::Present {
            id: present.brief.id,
            print: present.start_print,
        });
    }
    check_member(sql).await?;
    if !exists(sql, DEFINED, params![brief.owner, brief.digest]).await? {
        return Ok(WorkflowRunAdded::NoDefinition);
    }
    if let Some(NewCallback { trigger, quota, .. }) = &callback
        && !has_room(sql, &trigger.owner, &trigger.kind, *quota).await?
    {
        return Ok(WorkflowRunAdded::NoCallback);
    }
    Ok(WorkflowRunAdded::Full)
}

async fn workflow_runs(
    sql: &impl Sql,
    owner: String,
    filter: WorkflowRunFilter,
) -> Result<Vec<WorkflowRunBrief>, Failure> {
    let (created, id) = filter.after.unzip();
    let params = params![owner, filter.workflow, filter.status, created, id, filter.limit];
    sql.list(LIST, params).await
}

async fn end_workflow_run(sql: &impl Sql, run: String, end: WorkflowRunEnd) -> Result<bool, Failure> {
    let params = params![run, end.status, end.outputs, end.error, end.ended_micros];
    changed(sql, END, params).await
}

async fn claim_workflow_runs(sql: &impl Sql) -> Result<Vec<String>, Failure> {
    sql.execute(TAKE, &[]).await?;
    sql.list(MINE, &[]).await
}

async fn hand_over_workflow_run(sql: &impl Sql, run: String, epoch: u64) -> Result<bool, Failure> {
    let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
    changed(sql, HAND_OVER, params![run, epoch]).await
}

async fn forget_workflow_runs(sql: &impl Sql, micros: i64) -> Result<usize, Failure> {
    let forgotten = count(sql, FORGET, params![micros]).await?;
    forget_definitions(sql).await?;
    Ok(forgotten)
}
