//! The rows of runs of workflows, and of their steps.

use rusqlite::{OptionalExtension as _, Row, Transaction, named_params, params};

use super::failure::Failure;
use super::{SqliteStore, callbacks, owner_bytes, workflows};
use crate::{
    ANSWERED, CallbackAdded, NewCallback, StepAnswer, StepsWritten, StoreError, WAITING, WorkflowRunAdded,
    WorkflowRunBrief, WorkflowRunEnd, WorkflowRunFilter, WorkflowRunQuota, WorkflowRunRecord,
    WorkflowStepRecord,
};

const INSERT: &str = "
INSERT INTO workflow_runs (id, owner, workflow, version, digest, status, principal, started_by, start_key,
    start_print, inputs, created_micros, epoch)
VALUES (:id, :owner, :workflow, :version, :digest, :status, :principal, :started_by, :start_key,
    :start_print, :inputs, :created_micros, :epoch)";

const BRIEF: &str = "
id, owner, workflow, version, digest, status, error, started_by, cancelled_by, created_micros, ended_micros";

const LIST: &str = "
FROM workflow_runs WHERE owner = :owner AND (:workflow IS NULL OR workflow = :workflow)
    AND (:status IS NULL OR status = :status)
    AND (:created IS NULL OR created_micros < :created OR (created_micros = :created AND id < :id))
ORDER BY created_micros DESC, id DESC LIMIT :limit";

/// A prompt and its turn stay as they were written first.
const PUT_STEP: &str = "
INSERT INTO workflow_steps (run, owner, step, item, attempt, status, outputs, error, session, execution, answer, answered_by,
    due_micros, begun_micros, ended_micros, prompt, turn)
VALUES (:run, :owner, :step, :item, :attempt, :status, :outputs, :error, :session, :execution, :answer, :answered_by,
    :due_micros, :begun_micros, :ended_micros, :prompt,
    (SELECT count(*) FROM workflow_steps waiting WHERE waiting.owner = :owner AND waiting.status = 'waiting'))
ON CONFLICT (run, step, item, attempt) DO UPDATE SET status = excluded.status, outputs = excluded.outputs,
    error = excluded.error, session = excluded.session, execution = excluded.execution, answer = excluded.answer,
    answered_by = excluded.answered_by, due_micros = excluded.due_micros, begun_micros = excluded.begun_micros,
    ended_micros = excluded.ended_micros, prompt = coalesce(workflow_steps.prompt, excluded.prompt)";

impl SqliteStore {
    /// What a run of this process has in its row.
    fn my_epoch(&self) -> i64 {
        i64::try_from(self.inner.epoch).unwrap_or(i64::MAX)
    }

    pub(super) async fn do_add_workflow_run(
        &self,
        record: WorkflowRunRecord,
        quota: WorkflowRunQuota,
        callback: Option<NewCallback>,
    ) -> Result<WorkflowRunAdded, StoreError> {
        let epoch = self.my_epoch();
        self.write(move |transaction| {
            let brief = &record.brief;
            let present = transaction
                .prepare_cached("SELECT id, start_print FROM workflow_runs WHERE owner = ?1 AND start_key = ?2")?
                .query_row(params![brief.owner, record.start_key], |row| {
                    Ok(WorkflowRunAdded::Present {
                        id: row.get(0)?,
                        print: row.get(1)?,
                    })
                })
                .optional()?;
            if let Some(present) = present {
                return Ok(present);
            }
            let (kept, running): (i64, i64) = transaction
                .prepare_cached("SELECT count(*), count(*) FILTER (WHERE status = 'running') FROM workflow_runs WHERE owner = ?1")?
                .query_row([&brief.owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if kept >= quota.kept || running >= quota.running {
                return Ok(WorkflowRunAdded::Full);
            }
            let defined = transaction
                .prepare_cached("SELECT 1 FROM workflow_definitions WHERE owner = ?1 AND digest = ?2")?
                .exists([&brief.owner, &brief.digest])?;
            if !defined {
                return Ok(WorkflowRunAdded::NoDefinition);
            }
            if let Some(callback) = &callback
                && callbacks::insert(transaction, callback)? == CallbackAdded::Full
            {
                return Ok(WorkflowRunAdded::NoCallback);
            }
            let more = record.inputs.len() + record.principal.len();
            owner_bytes::forget_runs(transaction, &brief.owner, i64::try_from(more).unwrap_or(i64::MAX), quota.bytes)?;
            transaction.prepare_cached(INSERT)?.execute(named_params! {
                ":id": brief.id,
                ":owner": brief.owner,
                ":workflow": brief.workflow,
                ":version": brief.version,
                ":digest": brief.digest,
                ":status": brief.status,
                ":principal": record.principal,
                ":started_by": brief.started_by,
                ":start_key": record.start_key,
                ":start_print": record.start_print,
                ":inputs": record.inputs,
                ":created_micros": brief.created_micros,
                ":epoch": epoch,
            })?;
            Ok(WorkflowRunAdded::Added)
        })
        .await
    }

    pub(super) async fn do_workflow_run(&self, id: String) -> Result<Option<WorkflowRunRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached("SELECT * FROM workflow_runs WHERE id = ?1")?;
            Ok(select.query_row([&id], record).optional()?)
        })
        .await
    }

    pub(super) async fn do_workflow_run_of(
        &self,
        owner: String,
        key: String,
    ) -> Result<Option<WorkflowRunRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection
                .prepare_cached("SELECT * FROM workflow_runs WHERE owner = ?1 AND start_key = ?2")?;
            Ok(select.query_row([&owner, &key], record).optional()?)
        })
        .await
    }

    pub(super) async fn do_workflow_runs(
        &self,
        owner: String,
        filter: WorkflowRunFilter,
    ) -> Result<Vec<WorkflowRunBrief>, StoreError> {
        self.read(move |connection| {
            let mut select = connection.prepare_cached(&format!("SELECT {BRIEF} {LIST}"))?;
            let (created, id) = filter
                .after
                .map_or((None, None), |(created, id)| (Some(created), Some(id)));
            let given = named_params! {
                ":owner": owner,
                ":workflow": filter.workflow,
                ":status": filter.status,
                ":created": created,
                ":id": id,
                ":limit": filter.limit,
            };
            let rows = select.query_map(given, brief)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_workflow_steps(&self, run: String) -> Result<Vec<WorkflowStepRecord>, StoreError> {
        self.read(move |connection| {
            let mut select = connection
                .prepare_cached("SELECT * FROM workflow_steps WHERE run = ?1 ORDER BY step, item, attempt")?;
            let rows = select.query_map([&run], step)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_write_workflow_steps(
        &self,
        run: String,
        steps: Vec<WorkflowStepRecord>,
    ) -> Result<StepsWritten, StoreError> {
        let epoch = self.my_epoch();
        self.write(move |transaction| {
            let Some(owner) = owner_of_mine(transaction, &run, epoch)? else {
                return Ok(StepsWritten::Lost);
            };
            let mut held = transaction.prepare_cached(
                "SELECT status FROM workflow_steps WHERE run = ?1 AND step = ?2 AND item = ?3 AND attempt = ?4",
            )?;
            for step in &steps {
                let status: Option<String> = held
                    .query_row(params![run, step.step, step.item, step.attempt], |row| row.get(0))
                    .optional()?;
                if status.as_deref() == Some(ANSWERED) && step.answered_by.is_none() {
                    return Ok(StepsWritten::Stale);
                }
            }
            let mut put = transaction.prepare_cached(PUT_STEP)?;
            for step in &steps {
                put.execute(named_params! {
                    ":run": run,
                    ":owner": owner,
                    ":step": step.step,
                    ":item": step.item,
                    ":attempt": step.attempt,
                    ":status": step.status,
                    ":outputs": step.outputs,
                    ":error": step.error,
                    ":session": step.session,
                    ":execution": step.execution,
                    ":answer": step.answer,
                    ":answered_by": step.answered_by,
                    ":due_micros": step.due_micros,
                    ":begun_micros": step.begun_micros,
                    ":ended_micros": step.ended_micros,
                    ":prompt": step.prompt,
                })?;
            }
            Ok(StepsWritten::Done)
        })
        .await
    }

    pub(super) async fn do_answer_workflow_step(&self, given: StepAnswer) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut update = transaction.prepare_cached(
                "UPDATE workflow_steps SET status = ?1, answer = ?2, answered_by = ?3
                 WHERE run = ?4 AND step = ?5 AND status = ?6",
            )?;
            let changed = update.execute([
                ANSWERED,
                &given.answer,
                &given.by,
                &given.run,
                &given.step,
                WAITING,
            ])?;
            Ok(changed == 1)
        })
        .await
    }

    pub(super) async fn do_cancel_workflow_run(&self, run: String, by: String) -> Result<bool, StoreError> {
        self.write(move |transaction| {
            let mut update = transaction.prepare_cached(
                "UPDATE workflow_runs SET cancelled_by = coalesce(cancelled_by, ?2) WHERE id = ?1 AND status = 'running'",
            )?;
            Ok(update.execute([&run, &by])? == 1)
        })
        .await
    }

    pub(super) async fn do_end_workflow_run(
        &self,
        run: String,
        end: WorkflowRunEnd,
    ) -> Result<bool, StoreError> {
        let epoch = self.my_epoch();
        self.write(move |transaction| {
            let mut update = transaction.prepare_cached(
                "UPDATE workflow_runs SET status = ?3, outputs = ?4, error = ?5, ended_micros = ?6
                 WHERE id = ?1 AND epoch = ?2 AND status = 'running'",
            )?;
            let given = params![run, epoch, end.status, end.outputs, end.error, end.ended_micros];
            Ok(update.execute(given)? == 1)
        })
        .await
    }

    /// No other gateway has the file open, so every run that continues is this one's.
    pub(super) async fn do_claim_workflow_runs(&self) -> Result<Vec<String>, StoreError> {
        let epoch = self.my_epoch();
        self.write(move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE workflow_runs SET epoch = ?1 WHERE status = 'running' AND epoch <> ?1",
                )?
                .execute([epoch])?;
            let mut select = transaction.prepare_cached(
                "SELECT id FROM workflow_runs WHERE status = 'running' ORDER BY created_micros, id",
            )?;
            let ids = select.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(super) async fn do_forget_workflow_runs(&self, micros: i64) -> Result<usize, StoreError> {
        self.write(move |transaction| {
            transaction
                .prepare_cached(
                    "DELETE FROM workflow_steps WHERE run IN (SELECT id FROM workflow_runs WHERE ended_micros < ?1)",
                )?
                .execute([micros])?;
            let forgotten = transaction
                .prepare_cached("DELETE FROM workflow_runs WHERE ended_micros < ?1")?
                .execute([micros])?;
            workflows::forget_definitions(transaction)?;
            Ok(forgotten)
        })
        .await
    }
}

/// The owner of a run that this process has.
fn owner_of_mine(transaction: &Transaction<'_>, run: &str, epoch: i64) -> Result<Option<String>, Failure> {
    let mut select = transaction.prepare_cached(
        "SELECT owner FROM workflow_runs WHERE id = ?1 AND epoch = ?2 AND status = 'running'",
    )?;
    Ok(select
        .query_row(params![run, epoch], |row| row.get(0))
        .optional()?)
}

fn record(row: &Row<'_>) -> Result<WorkflowRunRecord, rusqlite::Error> {
    Ok(WorkflowRunRecord {
        brief: brief(row)?,
        principal: row.get("principal")?,
        start_key: row.get("start_key")?,
        start_print: row.get("start_print")?,
        inputs: row.get("inputs")?,
        outputs: row.get("outputs")?,
    })
}

fn brief(row: &Row<'_>) -> Result<WorkflowRunBrief, rusqlite::Error> {
    Ok(WorkflowRunBrief {
        id: row.get("id")?,
        owner: row.get("owner")?,
        workflow: row.get("workflow")?,
        version: row.get("version")?,
        digest: row.get("digest")?,
        status: row.get("status")?,
        error: row.get("error")?,
        started_by: row.get("started_by")?,
        cancelled_by: row.get("cancelled_by")?,
        created_micros: row.get("created_micros")?,
        ended_micros: row.get("ended_micros")?,
    })
}

fn step(row: &Row<'_>) -> Result<WorkflowStepRecord, rusqlite::Error> {
    Ok(WorkflowStepRecord {
        step: row.get("step")?,
        item: row.get("item")?,
        attempt: row.get("attempt")?,
        status: row.get("status")?,
        outputs: row.get("outputs")?,
        error: row.get("error")?,
        session: row.get("session")?,
        execution: row.get("execution")?,
        answer: row.get("answer")?,
        answered_by: row.get("answered_by")?,
        due_micros: row.get("due_micros")?,
        begun_micros: row.get("begun_micros")?,
        ended_micros: row.get("ended_micros")?,
        prompt: row.get("prompt")?,
    })
}
