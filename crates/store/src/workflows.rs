//! Workflows, each version of each name once, and their runs with what came of each step. A definition is there once for its versions and their
//! runs, by its address.

/// One row of `workflows`, with its definition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRecord {
    /// What is listed of it.
    pub brief: WorkflowBrief,
    /// Its definition, JSON.
    pub definition: String,
}

/// What is listed of a row of `workflows`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowBrief {
    /// A tenant, or the operator.
    pub owner: String,
    /// Its name.
    pub name: String,
    /// Its version, one of that name.
    pub version: String,
    /// What it does.
    pub description: String,
    /// The address of its content.
    pub digest: String,
    /// Bytes that count for its owner.
    pub bytes: i64,
    /// The principal that published it.
    pub published_by: String,
    /// When, in microseconds since the Unix epoch.
    pub published_micros: i64,
}

/// One row of `workflow_runs`, with what it runs on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRunRecord {
    /// What is listed of it.
    pub brief: WorkflowRunBrief,
    /// On whose behalf, JSON.
    pub principal: String,
    /// The key of its start, one of its owner.
    pub start_key: Option<String>,
    /// What a repeated start with that key must equal.
    pub start_print: String,
    /// Its inputs, JSON.
    pub inputs: String,
    /// What it returned, JSON.
    pub outputs: Option<String>,
}

/// What is listed of a row of `workflow_runs`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRunBrief {
    /// Its id.
    pub id: String,
    /// A tenant, or the operator.
    pub owner: String,
    /// The name of its workflow.
    pub workflow: String,
    /// The version of that.
    pub version: String,
    /// The address of the definition that it runs, which is kept as long as the run. Its workflow may be deleted meanwhile.
    pub digest: String,
    /// `running`, or how it ended.
    pub status: String,
    /// Why it failed, JSON.
    pub error: Option<String>,
    /// The principal that started it.
    pub started_by: String,
    /// The principal that wants it ended.
    pub cancelled_by: Option<String>,
    /// When it was started, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// When it ended.
    pub ended_micros: Option<i64>,
}

/// The status of a run that has not ended.
pub const RUNNING: &str = "running";
/// The status of a step that waits for the answer of a person.
pub const WAITING: &str = "waiting";
/// The status of a step that has an answer, which its run has not seen yet.
pub const ANSWERED: &str = "answered";

/// One row of `workflow_steps`: an attempt of a step of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowStepRecord {
    /// The id of the step in its workflow.
    pub step: String,
    /// The position of the item of a list; else 0.
    pub item: i64,
    /// The number of the attempt.
    pub attempt: i64,
    /// How far it is.
    pub status: String,
    /// What it returned, JSON.
    pub outputs: Option<String>,
    /// Why it failed, JSON.
    pub error: Option<String>,
    /// The session that it runs in.
    pub session: Option<String>,
    /// The execution that it is.
    pub execution: Option<String>,
    /// What a person has answered.
    pub answer: Option<String>,
    /// Who.
    pub answered_by: Option<String>,
    /// When it begins or expires, in microseconds since the Unix epoch.
    pub due_micros: Option<i64>,
    /// When it began.
    pub begun_micros: Option<i64>,
    /// When it ended.
    pub ended_micros: Option<i64>,
    /// The question to a person, JSON. It stays with the step once it was written.
    pub prompt: Option<String>,
}

/// A step that asks a person, or has asked one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepPromptRecord {
    /// The id of the run.
    pub run: String,
    /// The id of the step in the workflow.
    pub step: String,
    /// The owner of the run.
    pub owner: String,
    /// The number of steps of the same owner that waited for a person when it began to wait.
    pub turn: i64,
    /// [`WorkflowStepRecord::prompt`].
    pub prompt: String,
    /// [`WorkflowStepRecord::status`].
    pub status: String,
    /// When it began to wait, in microseconds since the Unix epoch.
    pub begun_micros: i64,
    /// Until when it may wait.
    pub due_micros: Option<i64>,
    /// The answer of a person.
    pub answer: Option<String>,
    /// The principal who has answered.
    pub answered_by: Option<String>,
    /// Why it has ended, JSON.
    pub error: Option<String>,
}

/// Which steps that wait for a person are listed.
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
    /// [`StepPromptRecord::turn`]. It counts in the list of all owners only.
    pub turn: i64,
    /// [`StepPromptRecord::begun_micros`].
    pub begun_micros: i64,
    /// The run; empty: before all of that time.
    pub run: String,
    /// The step.
    pub step: String,
}

/// How many runs an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WorkflowRunQuota {
    /// That have not ended.
    pub running: i64,
    /// That are kept.
    pub kept: i64,
    /// Bytes of all of them, from which on those that ended first are forgotten until a tenth of it is free.
    pub bytes: i64,
}

/// What came of adding a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WorkflowRunAdded {
    /// It is there, and this replica has it.
    Added,
    /// A run with its key was there already.
    Present {
        /// Its id.
        id: String,
        /// [`WorkflowRunRecord::start_print`].
        print: String,
    },
    /// Its owner has as many as it may.
    Full,
    /// Its owner has as many callbacks as it may.
    NoCallback,
    /// The workflow was deleted meanwhile.
    NoDefinition,
}

/// Which runs are listed, the latest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct WorkflowRunFilter {
    /// Of this workflow.
    pub workflow: Option<String>,
    /// With this status.
    pub status: Option<String>,
    /// Those that come after the one with this start and this id.
    pub after: Option<(i64, String)>,
    /// At most so many.
    pub limit: i64,
}

/// What came of writing steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepsWritten {
    /// They are there.
    Done,
    /// A person has answered meanwhile: read the run again.
    Stale,
    /// This process has not the run, or the run has ended.
    Lost,
}

/// How a run ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkflowRunEnd {
    /// How.
    pub status: String,
    /// What it returned, JSON.
    pub outputs: Option<String>,
    /// Why it failed, JSON.
    pub error: Option<String>,
    /// When, in microseconds since the Unix epoch.
    pub ended_micros: i64,
}

/// What a person has answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepAnswer {
    /// The run.
    pub run: String,
    /// The step, which waits.
    pub step: String,
    /// The answer.
    pub answer: String,
    /// Who.
    pub by: String,
}
