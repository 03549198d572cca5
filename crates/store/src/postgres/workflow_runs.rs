//! The rows of runs of workflows, and of their steps, which all replicas share.
//!
//! A run names the gateway epoch of the process that has it. A process takes runs whose process has no valid lease any more, and writes to
//! those alone that it has.

use tokio_postgres::Row;

use super::callbacks::{COUNT, has_room, is_open};
use super::connection::Param;
use super::failure::Failure;
use super::membership::check_member;
use super::workflows::FORGET_DEFINITIONS;
use super::{PostgresStore, owner_bytes};
use crate::{
    NewCallback, StepAnswer, StepsWritten, StoreError, WorkflowRunAdded, WorkflowRunBrief, WorkflowRunEnd,
    WorkflowRunFilter, WorkflowRunQuota, WorkflowRunRecord, WorkflowStepRecord,
};

/// Adds a run. What is named is a condition beside those of the replica and the quota.
macro_rules! add {
    ($($condition:tt)*) => {
        concat!(
            "
INSERT INTO himalia.workflow_runs (id, owner, workflow, version, digest, status, principal, started_by,
    start_key, start_print, inputs, created_micros, epoch)
SELECT $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $2
WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND EXISTS (SELECT 1 FROM himalia.workflow_definitions WHERE owner = $4 AND digest = $7)
  AND (SELECT count(*) < $15::bigint AND count(*) FILTER (WHERE status = 'running') < $16::bigint
       FROM himalia.workflow_runs WHERE owner = $4)",
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
    "WITH added AS (",
    add!(
        "
  AND (SELECT count(*) < $25::bigint AND count(*) FILTER (WHERE ",
        is_open!(),
        ") < $26::bigint
       FROM himalia.triggers one WHERE one.owner = $4 AND one.kind = $18)",
    ),
    "
    RETURNING owner),
tells AS (
    INSERT INTO himalia.triggers (id, kind, owner, name, definition, key_id, sealed, next_micros, version, created_micros)
    SELECT $17::uuid, $18::text, added.owner, $19::text, $20::text, $21::text, $22::bytea, NULL, $23::bigint, $24::bigint
    FROM added
    RETURNING id, owner)
INSERT INTO himalia.trigger_runs (id, trigger_id, owner, key, due_micros, state, not_before_micros, detail, claim)
SELECT $27::uuid, tells.id, tells.owner, $28::text, $29::bigint, $30::text, $31::bigint, $32::text, '' FROM tells"
);

const DEFINED: &str = "SELECT 1 FROM himalia.workflow_definitions WHERE owner = $1 AND digest = $2";

const PRESENT: &str = "SELECT id, start_print FROM himalia.workflow_runs WHERE owner = $1 AND start_key = $2";

const ONE: &str = "SELECT * FROM himalia.workflow_runs WHERE id = $1";

const OF_KEY: &str = "SELECT * FROM himalia.workflow_runs WHERE owner = $1 AND start_key = $2";

const LIST: &str = "
SELECT id, owner, workflow, version, digest, status, error, started_by, cancelled_by, created_micros, ended_micros
FROM himalia.workflow_runs WHERE owner = $1 AND ($2::text IS NULL OR workflow = $2) AND ($3::text IS NULL OR status = $3)
    AND ($4::bigint IS NULL OR created_micros < $4 OR (created_micros = $4 AND id < $5::text))
ORDER BY created_micros DESC, id DESC LIMIT $6";

const STEPS: &str = "SELECT * FROM himalia.workflow_steps WHERE run = $1 ORDER BY step, item, attempt";

/// The row of the run is locked, so that another replica takes the run before or after this. A prompt and its turn stay as they were written
/// first.
const PUT_STEPS: &str = "
WITH mine AS (
    SELECT id, owner FROM himalia.workflow_runs WHERE id = $3 AND epoch = $2 AND status = 'running'
      AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2) FOR UPDATE
),
waiting AS (
    SELECT count(*) AS steps FROM himalia.workflow_steps WHERE owner = (SELECT owner FROM mine) AND status = 'waiting'
)
INSERT INTO himalia.workflow_steps AS held (run, owner, turn, step, item, attempt, status, outputs, error, session,
    execution, answer, answered_by, due_micros, begun_micros, ended_micros, prompt)
SELECT mine.id, mine.owner, waiting.steps + row_number() OVER () - 1, new.* FROM mine, waiting,
    unnest($4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
        $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[]) AS new
ON CONFLICT (run, step, item, attempt) DO UPDATE SET status = excluded.status, outputs = excluded.outputs,
    error = excluded.error, session = excluded.session, execution = excluded.execution, answer = excluded.answer,
    answered_by = excluded.answered_by, due_micros = excluded.due_micros, begun_micros = excluded.begun_micros,
    ended_micros = excluded.ended_micros, prompt = coalesce(held.prompt, excluded.prompt)
WHERE held.status <> 'answered' OR excluded.answered_by IS NOT NULL";

const IS_MINE: &str = "
SELECT 1 FROM himalia.workflow_runs WHERE id = $1 AND epoch = $2 AND status = 'running'";

const ANSWER: &str = "
UPDATE himalia.workflow_steps SET status = 'answered', answer = $5, answered_by = $6
WHERE run = $3 AND step = $4 AND status = 'waiting'
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const CANCEL: &str = "
UPDATE himalia.workflow_runs SET cancelled_by = coalesce(cancelled_by, $4)
WHERE id = $3 AND status = 'running' AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const END: &str = "
UPDATE himalia.workflow_runs SET status = $4, outputs = $5, error = $6, ended_micros = $7
WHERE id = $3 AND epoch = $2 AND status = 'running'
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)";

const TAKE: &str = "
UPDATE himalia.workflow_runs AS run SET epoch = $2
WHERE status = 'running' AND epoch <> $2
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND NOT EXISTS (SELECT 1 FROM himalia.replicas AS its
      WHERE its.epoch = run.epoch AND its.lease_until > clock_timestamp())";

const MINE: &str = "
SELECT id FROM himalia.workflow_runs WHERE status = 'running' AND epoch = $1 ORDER BY created_micros, id";

const HAND_OVER: &str = "
UPDATE himalia.workflow_runs SET epoch = $4
WHERE id = $3 AND epoch = $2 AND status = 'running'
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE epoch = $4 AND lease_until > clock_timestamp())";

const FORGET_STEPS: &str = "
DELETE FROM himalia.workflow_steps WHERE run IN (SELECT id FROM himalia.workflow_runs WHERE ended_micros < $1)";

const FORGET: &str = "DELETE FROM himalia.workflow_runs WHERE ended_micros < $1";

impl PostgresStore {
    pub(super) async fn do_add_workflow_run(
        &self,
        record: WorkflowRunRecord,
        quota: WorkflowRunQuota,
        callback: Option<NewCallback>,
    ) -> Result<WorkflowRunAdded, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let brief = &record.brief;
                let mut params: Vec<Param<'_>> = vec![
                    &replica,
                    &me.epoch,
                    &brief.id,
                    &brief.owner,
                    &brief.workflow,
                    &brief.version,
                    &brief.digest,
                    &brief.status,
                    &record.principal,
                    &brief.started_by,
                    &record.start_key,
                    &record.start_print,
                    &record.inputs,
                    &brief.created_micros,
                    &quota.kept,
                    &quota.running,
                ];
                let state = callback.as_ref().map(|callback| callback.run.state.as_str());
                if let Some(NewCallback { trigger, run, quota }) = &callback {
                    let told: [Param<'_>; 16] = [
                        &trigger.id,
                        &trigger.kind,
                        &trigger.name,
                        &trigger.definition,
                        &trigger.key_id,
                        &trigger.sealed,
                        &trigger.version,
                        &trigger.created_micros,
                        &quota.kept,
                        &quota.open,
                        &run.id,
                        &run.key,
                        &run.due_micros,
                        &state,
                        &run.not_before_micros,
                        &run.detail,
                    ];
                    params.extend(told);
                }
                let sql = if callback.is_some() {
                    ADD_WITH_CALLBACK
                } else {
                    ADD
                };
                if link.execute(sql, &params).await? == 1 {
                    // What it needs itself counts already.
                    owner_bytes::forget_runs(&link, &brief.owner, 0, quota.bytes).await?;
                    return Ok(WorkflowRunAdded::Added);
                }
                let held = link.query(PRESENT, &[&brief.owner, &record.start_key]).await?;
                if let Some(row) = held.first() {
                    return Ok(WorkflowRunAdded::Present {
                        id: row.try_get("id")?,
                        print: row.try_get("start_print")?,
                    });
                }
                check_member(&link, &me).await?;
                if link
                    .query(DEFINED, &[&brief.owner, &brief.digest])
                    .await?
                    .is_empty()
                {
                    return Ok(WorkflowRunAdded::NoDefinition);
                }
                if let Some(NewCallback { trigger, quota, .. }) = &callback {
                    let counted = link.query(COUNT, &[&trigger.owner, &trigger.kind]).await?;
                    if !has_room(&counted, *quota)? {
                        return Ok(WorkflowRunAdded::NoCallback);
                    }
                }
                Ok(WorkflowRunAdded::Full)
            })
            .await
    }

    pub(super) async fn do_workflow_run(&self, id: String) -> Result<Option<WorkflowRunRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(ONE, &[&id]).await?;
                rows.first().map(record).transpose()
            })
            .await
    }

    pub(super) async fn do_workflow_run_of(
        &self,
        owner: String,
        key: String,
    ) -> Result<Option<WorkflowRunRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(OF_KEY, &[&owner, &key]).await?;
                rows.first().map(record).transpose()
            })
            .await
    }

    pub(super) async fn do_workflow_runs(
        &self,
        owner: String,
        filter: WorkflowRunFilter,
    ) -> Result<Vec<WorkflowRunBrief>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let (created, id) = filter
                    .after
                    .map_or((None, None), |(created, id)| (Some(created), Some(id)));
                let rows = link
                    .query(
                        LIST,
                        &[
                            &owner,
                            &filter.workflow,
                            &filter.status,
                            &created,
                            &id,
                            &filter.limit,
                        ],
                    )
                    .await?;
                rows.iter().map(brief).collect()
            })
            .await
    }

    pub(super) async fn do_workflow_steps(&self, run: String) -> Result<Vec<WorkflowStepRecord>, StoreError> {
        self.any_worker()?
            .run(move |link| async move {
                let rows = link.query(STEPS, &[&run]).await?;
                rows.iter().map(step).collect()
            })
            .await
    }

    pub(super) async fn do_write_workflow_steps(
        &self,
        run: String,
        steps: Vec<WorkflowStepRecord>,
    ) -> Result<StepsWritten, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let texts = |of: fn(&WorkflowStepRecord) -> &String| steps.iter().map(of).collect::<Vec<_>>();
                let maybe =
                    |of: fn(&WorkflowStepRecord) -> &Option<String>| steps.iter().map(of).collect::<Vec<_>>();
                let numbers = |of: fn(&WorkflowStepRecord) -> i64| steps.iter().map(of).collect::<Vec<_>>();
                let times =
                    |of: fn(&WorkflowStepRecord) -> Option<i64>| steps.iter().map(of).collect::<Vec<_>>();
                let put = link
                    .execute(
                        PUT_STEPS,
                        &[
                            &replica,
                            &me.epoch,
                            &run,
                            &texts(|step| &step.step),
                            &numbers(|step| step.item),
                            &numbers(|step| step.attempt),
                            &texts(|step| &step.status),
                            &maybe(|step| &step.outputs),
                            &maybe(|step| &step.error),
                            &maybe(|step| &step.session),
                            &maybe(|step| &step.execution),
                            &maybe(|step| &step.answer),
                            &maybe(|step| &step.answered_by),
                            &times(|step| step.due_micros),
                            &times(|step| step.begun_micros),
                            &times(|step| step.ended_micros),
                            &maybe(|step| &step.prompt),
                        ],
                    )
                    .await?;
                if put == steps.len() as u64 {
                    return Ok(StepsWritten::Done);
                }
                let mine = !link.query(IS_MINE, &[&run, &me.epoch]).await?.is_empty();
                Ok(if mine {
                    StepsWritten::Stale
                } else {
                    StepsWritten::Lost
                })
            })
            .await
    }

    pub(super) async fn do_answer_workflow_step(&self, given: StepAnswer) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let changed = link
                    .execute(
                        ANSWER,
                        &[
                            &replica,
                            &me.epoch,
                            &given.run,
                            &given.step,
                            &given.answer,
                            &given.by,
                        ],
                    )
                    .await?;
                Ok(changed == 1)
            })
            .await
    }

    pub(super) async fn do_cancel_workflow_run(&self, run: String, by: String) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                Ok(link.execute(CANCEL, &[&replica, &me.epoch, &run, &by]).await? == 1)
            })
            .await
    }

    pub(super) async fn do_end_workflow_run(
        &self,
        run: String,
        end: WorkflowRunEnd,
    ) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let changed = link
                    .execute(
                        END,
                        &[
                            &replica,
                            &me.epoch,
                            &run,
                            &end.status,
                            &end.outputs,
                            &end.error,
                            &end.ended_micros,
                        ],
                    )
                    .await?;
                Ok(changed == 1)
            })
            .await
    }

    pub(super) async fn do_claim_workflow_runs(&self) -> Result<Vec<String>, StoreError> {
        self.check_lease()?;
        let me = self.me();
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                link.execute(TAKE, &[&replica, &me.epoch]).await?;
                let rows = link.query(MINE, &[&me.epoch]).await?;
                rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
            })
            .await
    }

    pub(super) async fn do_hand_over_workflow_run(
        &self,
        run: String,
        epoch: u64,
    ) -> Result<bool, StoreError> {
        self.check_lease()?;
        let me = self.me();
        let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
        self.any_worker()?
            .run(move |link| async move {
                let replica: &str = &me.name;
                let changed = link
                    .execute(HAND_OVER, &[&replica, &me.epoch, &run, &epoch])
                    .await?;
                Ok(changed == 1)
            })
            .await
    }

    pub(super) async fn do_forget_workflow_runs(&self, micros: i64) -> Result<usize, StoreError> {
        self.check_lease()?;
        self.any_worker()?
            .run(move |link| async move {
                link.execute(FORGET_STEPS, &[&micros]).await?;
                let deleted = link.execute(FORGET, &[&micros]).await?;
                link.execute(FORGET_DEFINITIONS, &[]).await?;
                Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
            })
            .await
    }
}

fn record(row: &Row) -> Result<WorkflowRunRecord, Failure> {
    Ok(WorkflowRunRecord {
        brief: brief(row)?,
        principal: row.try_get("principal")?,
        start_key: row.try_get("start_key")?,
        start_print: row.try_get("start_print")?,
        inputs: row.try_get("inputs")?,
        outputs: row.try_get("outputs")?,
    })
}

fn brief(row: &Row) -> Result<WorkflowRunBrief, Failure> {
    Ok(WorkflowRunBrief {
        id: row.try_get("id")?,
        owner: row.try_get("owner")?,
        workflow: row.try_get("workflow")?,
        version: row.try_get("version")?,
        digest: row.try_get("digest")?,
        status: row.try_get("status")?,
        error: row.try_get("error")?,
        started_by: row.try_get("started_by")?,
        cancelled_by: row.try_get("cancelled_by")?,
        created_micros: row.try_get("created_micros")?,
        ended_micros: row.try_get("ended_micros")?,
    })
}

fn step(row: &Row) -> Result<WorkflowStepRecord, Failure> {
    Ok(WorkflowStepRecord {
        step: row.try_get("step")?,
        item: row.try_get("item")?,
        attempt: row.try_get("attempt")?,
        status: row.try_get("status")?,
        outputs: row.try_get("outputs")?,
        error: row.try_get("error")?,
        session: row.try_get("session")?,
        execution: row.try_get("execution")?,
        answer: row.try_get("answer")?,
        answered_by: row.try_get("answered_by")?,
        due_micros: row.try_get("due_micros")?,
        begun_micros: row.try_get("begun_micros")?,
        ended_micros: row.try_get("ended_micros")?,
        prompt: row.try_get("prompt")?,
    })
}
