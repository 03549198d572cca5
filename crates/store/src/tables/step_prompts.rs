//! Steps of runs of workflows that ask a person: rows of `workflow_steps` that have a prompt. The steps that wait are in indexes.

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, each, params, record};

/// A step that asks a person, or has asked one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepPromptRecord {
    /// The id of the run.
    pub run: String,
    /// The id of the step in the workflow.
    pub step: String,
    pub owner: String,
    /// The number of steps of the same owner that waited for a person when it began to wait.
    pub turn: i64,
    /// [`WorkflowStepRecord::prompt`](crate::WorkflowStepRecord::prompt).
    pub prompt: String,
    /// [`WorkflowStepRecord::status`](crate::WorkflowStepRecord::status).
    pub status: String,
    /// The time when it began to wait, in microseconds since the Unix epoch.
    pub begun_micros: i64,
    /// The time until which it may wait.
    pub due_micros: Option<i64>,
    /// The answer of a person.
    pub answer: Option<String>,
    /// The principal who has answered.
    pub answered_by: Option<String>,
    /// The reason why it has ended, JSON.
    pub error: Option<String>,
}

/// The steps that are listed, of those that wait for a person.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StepPromptFilter {
    /// The owner, whose steps are in the order in which they began to wait. `None`: the steps of all owners, by
    /// [`StepPromptRecord::turn`] first, so that the many steps of one owner come after the first ones of each other.
    pub owner: Option<String>,
    /// Only steps after this place.
    pub after: Option<StepPromptPlace>,
    /// At most so many.
    pub limit: i64,
}

/// A place in the list of steps that wait.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StepPromptPlace {
    /// [`StepPromptRecord::turn`]. Only the list of all owners has it in its order.
    pub turn: i64,
    /// [`StepPromptRecord::begun_micros`].
    pub begun_micros: i64,
    /// The run; empty: before all of that time.
    pub run: String,
    pub step: String,
}

record!(StepPromptRecord in "workflow_steps" {
    run, step, owner, turn, prompt, status, begun_micros, due_micros, answer, answered_by, error
});

part! {
    /// Questions of workflows to persons.
    StepPromptStore {
        /// Steps that wait for a person, of an owner or of all.
        read fn step_prompts(filter: StepPromptFilter) -> Vec<StepPromptRecord>;

        /// A step that asks or has asked a person.
        read fn step_prompt(run: String, step: String) -> Option<StepPromptRecord> = one(ONE, run, step);

        /// Steps that wait for a person and of which [`Self::set_told`] has noted nothing, by their turn, at most `most`.
        read fn untold_step_prompts(most: i64) -> Vec<StepPromptRecord> = list(UNTOLD, most);

        /// Notes that the prompts of these steps were posted to webhooks, by run and id.
        write fn set_told(steps: Vec<(String, String)>) -> ();
    }
}

/// Selects rows of the condition.
macro_rules! select {
    ($($rest:tt)*) => {
        concat!(
            "SELECT run, step, owner, turn, prompt, status, begun_micros, due_micros, answer, answered_by, error
FROM himalia.workflow_steps WHERE ",
            $($rest)*
        )
    };
}

/// The end of the order of lists, as the indexes have it.
macro_rules! place {
    () => {
        r#"begun_micros, run{postgres  COLLATE "C"}, step{postgres  COLLATE "C"}"#
    };
}

const OF_OWNER: &str = select!(
    "status = 'waiting' AND prompt IS NOT NULL AND owner = $1 AND (",
    place!(),
    ") > ($2, $3, $4) ORDER BY ",
    place!(),
    " LIMIT $5"
);

const OF_ALL: &str = select!(
    "status = 'waiting' AND prompt IS NOT NULL AND (turn, ",
    place!(),
    ") > ($1, $2, $3, $4) ORDER BY turn, ",
    place!(),
    " LIMIT $5"
);

const ONE: &str = select!("run = $1 AND step = $2 AND prompt IS NOT NULL");

const UNTOLD: &str = select!(
    "status = 'waiting' AND prompt IS NOT NULL AND {sqlite told = 0}{postgres NOT told} ORDER BY turn, begun_micros LIMIT $1"
);

const TELL: &str = concat!(
    "UPDATE himalia.workflow_steps SET told = true
WHERE (run, step) IN (SELECT told.value ->> 0, told.value ->> 1 FROM ",
    each!("$1"),
    " AS told) AND {member}"
);

async fn step_prompts(sql: &impl Sql, filter: StepPromptFilter) -> Result<Vec<StepPromptRecord>, Failure> {
    let after = filter.after.unwrap_or_default();
    let (begun, run, step) = (after.begun_micros, after.run, after.step);
    match filter.owner {
        Some(owner) => {
            sql.list(OF_OWNER, params![owner, begun, run, step, filter.limit])
                .await
        }
        None => {
            sql.list(OF_ALL, params![after.turn, begun, run, step, filter.limit])
                .await
        }
    }
}

async fn set_told(sql: &impl Sql, steps: Vec<(String, String)>) -> Result<(), Failure> {
    let steps = serde_json::json!(steps);
    sql.execute(TELL, params![steps]).await.map(drop)
}
