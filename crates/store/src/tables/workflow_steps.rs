//! Steps of runs of workflows: a row for each attempt.

use serde::Serialize;

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, each, exists, params, record};

/// The status of a step that waits for the answer of a person.
pub const WAITING: &str = "waiting";
/// The status of a step that has an answer, which its run has not seen yet.
pub const ANSWERED: &str = "answered";

/// One row of `workflow_steps`: an attempt of a step of a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct WorkflowStepRecord {
    /// The id of the step in its workflow.
    pub step: String,
    /// The position of the item of a list; else 0.
    pub item: i64,
    pub attempt: i64,
    /// The state of the attempt.
    pub status: String,
    /// The outputs, JSON.
    pub outputs: Option<String>,
    /// The reason why it failed, JSON.
    pub error: Option<String>,
    pub session: Option<String>,
    pub execution: Option<String>,
    /// The answer of a person.
    pub answer: Option<String>,
    /// The principal who has answered.
    pub answered_by: Option<String>,
    /// The time when it begins or expires, in microseconds since the Unix epoch.
    pub due_micros: Option<i64>,
    /// The time when it began.
    pub begun_micros: Option<i64>,
    /// The time when it ended.
    pub ended_micros: Option<i64>,
    /// The question to a person, JSON. It stays with the step once it was written.
    pub prompt: Option<String>,
}

/// The result of writing steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepsWritten {
    /// The steps are stored.
    Done,
    /// A person has answered meanwhile: read the run again.
    Stale,
    /// This process does not have the run, or the run has ended.
    Lost,
}

/// The answer of a person to a step.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepAnswer {
    pub run: String,
    /// The step, which waits.
    pub step: String,
    pub answer: String,
    /// The principal who has answered.
    pub by: String,
}

record!(WorkflowStepRecord in "workflow_steps" {
    step, item, attempt, status, outputs, error, session, execution, answer, answered_by, due_micros, begun_micros,
    ended_micros, prompt
});

record!(StepAnswer in "workflow_steps" { run, step, answer, by as "answered_by" });

part! {
    /// Steps of runs of workflows, and the answers of persons to them.
    WorkflowStepStore {
        /// All attempts of all steps of a run, by step, item and attempt.
        read fn workflow_steps(run: String) -> Vec<WorkflowStepRecord> = list(LIST, run);

        /// Writes attempts of a run that this process has, each in the place of the one with its step, item and number.
        write fn write_workflow_steps(run: String, steps: Vec<WorkflowStepRecord>) -> StepsWritten;

        /// The answer to a step that waits; `false` when it does not wait: it was answered or has ended.
        write fn answer_workflow_step(given: StepAnswer) -> bool = changed(ANSWER, given.run, given.step, given.answer, given.by);

        /// The answers to steps of a run that the run has not seen yet.
        read fn step_answers(run: String) -> Vec<StepAnswer> = list(ANSWERS, run);

        /// Returns true if a step of a run waits for a person.
        read fn run_asks(run: String) -> bool;
    }
}

const LIST: &str = "SELECT * FROM himalia.workflow_steps WHERE run = $1 ORDER BY step, item, attempt";

/// A number of a step in JSON.
macro_rules! number {
    ($name:literal) => {
        concat!("CAST(new.value ->> '", $name, "' AS bigint)")
    };
}

/// The row of the run is locked, so that another replica takes the run before or after this. A prompt and its turn stay as they were
/// written first.
const PUT: &str = concat!(
    "
WITH mine AS (
    SELECT id, owner FROM himalia.workflow_runs
    WHERE id = $1 AND epoch = {epoch} AND status = 'running' AND {member}{postgres  FOR UPDATE}
),
waiting AS (
    SELECT count(*) AS steps FROM himalia.workflow_steps WHERE owner = (SELECT owner FROM mine) AND status = 'waiting'
)
INSERT INTO himalia.workflow_steps AS held (run, owner, turn, step, item, attempt, status, outputs, error, session,
    execution, answer, answered_by, due_micros, begun_micros, ended_micros, prompt)
SELECT mine.id, mine.owner, waiting.steps + count(*) FILTER (WHERE new.value ->> 'status' = 'waiting')
    OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW), new.value ->> 'step', ",
    number!("item"),
    ", ",
    number!("attempt"),
    ", new.value ->> 'status', new.value ->> 'outputs', new.value ->> 'error', new.value ->> 'session',
    new.value ->> 'execution', new.value ->> 'answer', new.value ->> 'answered_by', ",
    number!("due_micros"),
    ", ",
    number!("begun_micros"),
    ", ",
    number!("ended_micros"),
    ", new.value ->> 'prompt'
FROM mine, waiting, ",
    each!("$2"),
    " AS new WHERE true
ON CONFLICT (run, step, item, attempt) DO UPDATE SET status = excluded.status, outputs = excluded.outputs,
    error = excluded.error, session = excluded.session, execution = excluded.execution, answer = excluded.answer,
    answered_by = excluded.answered_by, due_micros = excluded.due_micros, begun_micros = excluded.begun_micros,
    ended_micros = excluded.ended_micros, prompt = coalesce(held.prompt, excluded.prompt)
WHERE held.status <> 'answered' OR excluded.answered_by IS NOT NULL"
);

const IS_MINE: &str =
    "SELECT 1 FROM himalia.workflow_runs WHERE id = $1 AND epoch = {epoch} AND status = 'running'";

const ANSWER: &str = "
UPDATE himalia.workflow_steps SET status = 'answered', answer = $3, answered_by = $4
WHERE run = $1 AND step = $2 AND status = 'waiting' AND {member}";

const ANSWERS: &str = "
SELECT run, step, answer, answered_by FROM himalia.workflow_steps WHERE run = $1 AND status = 'answered'";

const ASKS: &str = "SELECT 1 FROM himalia.workflow_steps WHERE run = $1 AND status = 'waiting' LIMIT 1";

async fn write_workflow_steps(
    sql: &impl Sql,
    run: String,
    steps: Vec<WorkflowStepRecord>,
) -> Result<StepsWritten, Failure> {
    let new = serde_json::json!(steps);
    if sql.execute(PUT, params![run, new]).await? == steps.len() as u64 {
        return Ok(StepsWritten::Done);
    }
    let mine = exists(sql, IS_MINE, params![run]).await?;
    Ok(if mine {
        StepsWritten::Stale
    } else {
        StepsWritten::Lost
    })
}

async fn run_asks(sql: &impl Sql, run: String) -> Result<bool, Failure> {
    exists(sql, ASKS, params![run]).await
}
