//! `/v1/runs/{run}/steps`: the steps of runs of workflows.

use axum::Json;
use axum::extract::{Path, State};
use himalia_runs::{
    Approval, Attempt, AttemptStatus, MAX_STEP_ANSWER_BYTES, RunError, SkillRef, StepState, StepView,
    id_of_run,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::Run;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::v1::dates::date;
use crate::v1::input::{Members, Parameters, Text, Whole};

/// Items of a list.
const ITEM_MOST: u64 = 999;

/// The state of a step or an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepStatus {
    /// A step that it needs has not succeeded yet.
    Pending,
    /// It did not begin before the run ended.
    Skipped,
    /// It is tried again later.
    Delayed,
    /// The skill runs.
    Running,
    /// A person is asked.
    Waiting,
    /// It has ended well.
    Succeeded,
    /// It has failed.
    Failed,
    /// It was stopped because the run has ended.
    Cancelled,
}

impl From<AttemptStatus> for StepStatus {
    fn from(status: AttemptStatus) -> Self {
        match status {
            AttemptStatus::Delayed => Self::Delayed,
            AttemptStatus::Running => Self::Running,
            AttemptStatus::Waiting | AttemptStatus::Answered => Self::Waiting,
            AttemptStatus::Succeeded => Self::Succeeded,
            AttemptStatus::Failed => Self::Failed,
            AttemptStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<StepState> for StepStatus {
    fn from(state: StepState) -> Self {
        match state {
            StepState::Pending => Self::Pending,
            StepState::Skipped => Self::Skipped,
            StepState::Of(status) => status.into(),
        }
    }
}

/// A step of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkflowRunStep")]
pub(crate) struct ShownStep {
    id: String,
    status: StepStatus,
    /// Ids of the steps that it comes after.
    needs: Vec<String>,
    /// The skill that it runs.
    skill: Option<SkillRef>,
    /// The question for a person, in place of a skill.
    approval: Option<Approval>,
    /// The number of items of its list, once that is known; null for a step without one.
    items: Option<u32>,
    /// The number of items, or 1 for a step without a list, whose skill has returned.
    succeeded: u32,
    /// The inputs. Null before it begins, and for a step with a list, whose items have them.
    inputs: Option<Value>,
    /// The returned outputs. Null until then.
    outputs: Option<Value>,
    /// True if inputs or outputs have more than 16 KiB and are left out: only the step itself has them.
    omitted: bool,
    /// All attempts; of a step with a list they are with the step alone.
    attempts: Vec<ShownAttempt>,
}

/// An attempt of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkflowAttempt")]
struct ShownAttempt {
    /// The position of the item of a list; else 0.
    item: u32,
    /// 1 is the first.
    attempt: u32,
    status: StepStatus,
    /// The session that it runs in.
    session: Option<String>,
    /// The execution that it is.
    execution: Option<String>,
    /// The run of its skill.
    run: Option<String>,
    error: Option<RunError>,
    /// The answer of a person.
    answer: Option<String>,
    /// The caller that has answered.
    answered_by: Option<String>,
    /// When it begins, if it is delayed, or the question expires.
    #[schemars(extend("format" = "date-time"))]
    due: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    begun: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
}

impl From<Attempt> for ShownAttempt {
    fn from(attempt: Attempt) -> Self {
        Self {
            item: attempt.place.item,
            attempt: attempt.place.attempt,
            status: attempt.status.into(),
            run: attempt
                .session
                .as_ref()
                .and_then(|id| Uuid::try_parse(id).ok())
                .map(id_of_run),
            session: attempt.session,
            execution: attempt.execution,
            error: attempt.failure.map(|failure| RunError {
                code: failure.code,
                message: failure.message,
                step: None,
            }),
            answer: attempt.answer,
            answered_by: attempt.by,
            due: attempt.due.map(date),
            begun: attempt.begun.map(date),
            ended: attempt.ended.map(date),
        }
    }
}

impl From<StepView> for ShownStep {
    fn from(step: StepView) -> Self {
        Self {
            id: step.id,
            status: step.state.into(),
            needs: step.needs,
            skill: step.skill,
            approval: step.approval,
            items: step.items,
            succeeded: step.succeeded,
            inputs: step.inputs,
            outputs: step.outputs,
            omitted: step.omitted,
            attempts: step.attempts.into_iter().map(ShownAttempt::from).collect(),
        }
    }
}

/// The item of a step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepItemQuery {
    /// For a step with a list, the item whose inputs and outputs are shown; default 0.
    item: Option<Whole<0, ITEM_MOST>>,
}

/// `GET /v1/runs/{id}/steps/{step}?item=`: a step with all its attempts, and its inputs and outputs.
pub(crate) async fn step(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, step)): Path<(String, String)>,
    Parameters(StepItemQuery { item }): Parameters<StepItemQuery>,
) -> Result<Json<ShownStep>, ApiError> {
    let item = item.map_or(0, |Whole(item)| u32::try_from(item).unwrap_or(u32::MAX - 1));
    let found = app.runs().workflow_step(&principal, &id, &step, item).await?;
    Ok(Json(found.into()))
}

/// The answer of a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepAnswer")]
pub(crate) struct AnswerStepRequest {
    /// One of the options.
    value: Text<1, MAX_STEP_ANSWER_BYTES>,
}

/// `POST /v1/runs/{id}/steps/{step}/answer`: 200 with the run once the answer is written, 409 if the step does not wait.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, step)): Path<(String, String)>,
    Members(AnswerStepRequest { value: Text(value) }): Members<AnswerStepRequest>,
) -> Result<Json<Run>, ApiError> {
    let answered = app.runs().answer_workflow_step(&principal, &id, &step, value);
    Ok(Json(answered.await?.into()))
}
