//! `/v1/workflows/{workflow}/runs`, `/v1/workflow-runs`: runs of workflows.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{
    Approval, Attempt, AttemptStatus, CallbackSecret, MAX_CALLBACK_URL, MAX_STEP_ANSWER_BYTES, RunFilter,
    RunInfo, RunStatus, RunUntil, RunView, SkillRef, StartRun, StepState, StepView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::micros;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};
use crate::v1::answers::{StartedRun, With};
use crate::v1::executions::WAIT_MOST;
use crate::v1::input::{
    Cursor, Key, Limit, Members, PAGE_MOST, Parameters, Text, Wait, Whole, key_of, limit,
};

/// Items of a list.
const ITEM_MOST: u64 = 999;

/// A run to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewWorkflowRun {
    /// Default: the latest one.
    version: Option<String>,
    /// What fits the schema of the workflow.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// The same key again is the same run: 422 if that was another start.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
    /// Seconds that the response waits for the end; default 0. The run continues afterwards.
    wait_s: Option<Wait<WAIT_MOST>>,
    /// Where its result is posted.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WorkflowRunStatus")]
pub(crate) enum Status {
    /// It continues, or waits for a person.
    Running,
    /// All steps have succeeded.
    Succeeded,
    /// A step has not.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl From<RunStatus> for Status {
    fn from(status: RunStatus) -> Self {
        match status {
            RunStatus::Running => Self::Running,
            RunStatus::Succeeded => Self::Succeeded,
            RunStatus::Failed => Self::Failed,
            RunStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Succeeded => Self::Succeeded,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

/// How far a step or an attempt of it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum StepStatus {
    /// What it needs has not succeeded yet.
    Pending,
    /// It did not begin before the run ended.
    Skipped,
    /// It is tried again later.
    Delayed,
    /// Its skill runs.
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

/// Why something failed.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkflowError {
    /// A stable name.
    code: String,
    message: String,
    /// The step that failed, of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

/// A run in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedWorkflowRun {
    /// `wfr_` and 32 hexadecimal digits.
    id: String,
    /// The name of its workflow.
    workflow: String,
    version: String,
    /// The address of the content of that version.
    digest: String,
    status: Status,
    /// Why it failed.
    error: Option<WorkflowError>,
    /// Who started it. It has the rights of this principal.
    started_by: String,
    /// Who cancelled it.
    cancelled_by: Option<String>,
    /// When it was started.
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// When it ended.
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
}

impl From<RunInfo> for ListedWorkflowRun {
    fn from(info: RunInfo) -> Self {
        let step = info.failed_step;
        Self {
            id: info.id,
            workflow: info.workflow,
            version: info.version,
            digest: info.digest,
            status: info.status.into(),
            error: info.failure.map(|failure| WorkflowError {
                code: failure.code,
                message: failure.message,
                step,
            }),
            started_by: info.started_by,
            cancelled_by: info.cancelled_by,
            created: micros(info.created_micros),
            ended: info.ended_micros.map(micros),
        }
    }
}

/// A run with its steps.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkflowRun")]
pub(crate) struct ShownRun {
    #[serde(flatten)]
    run: ListedWorkflowRun,
    inputs: Value,
    /// What it returned. Null until then.
    outputs: Option<Value>,
    /// In the order of the workflow.
    steps: Vec<ShownStep>,
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
    /// What a person is asked, in place of a skill.
    approval: Option<Approval>,
    /// How many items its list has, once that is known; null for a step without one.
    items: Option<u32>,
    /// Of how many of them, or of one, the skill has returned.
    succeeded: u32,
    /// What it got. Null before it begins, and of a step with a list, whose items have it.
    inputs: Option<Value>,
    /// What it returned. Null until then.
    outputs: Option<Value>,
    /// Whether inputs or outputs have more than 16 KiB and are left out: the step alone has them.
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
    error: Option<WorkflowError>,
    /// What a person has answered.
    answer: Option<String>,
    /// Who has answered.
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
            session: attempt.session,
            execution: attempt.execution,
            error: attempt.failure.map(|failure| WorkflowError {
                code: failure.code,
                message: failure.message,
                step: None,
            }),
            answer: attempt.answer,
            answered_by: attempt.by,
            due: attempt.due.map(micros),
            begun: attempt.begun.map(micros),
            ended: attempt.ended.map(micros),
        }
    }
}

impl From<StepView> for ShownStep {
    fn from(step: StepView) -> Self {
        Self {
            id: step.id,
            status: match step.state {
                StepState::Pending => StepStatus::Pending,
                StepState::Skipped => StepStatus::Skipped,
                StepState::Of(status) => status.into(),
            },
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

impl From<RunView> for ShownRun {
    fn from(view: RunView) -> Self {
        Self {
            run: view.info.into(),
            inputs: view.inputs,
            outputs: view.outputs,
            steps: view.steps.into_iter().map(ShownStep::from).collect(),
        }
    }
}

/// A run that was started, and where it is.
#[derive(Debug)]
pub(crate) struct Begun {
    location: String,
    new: bool,
    callback_secret: Option<CallbackSecret>,
    run: ShownRun,
}

impl IntoResponse for Begun {
    fn into_response(self) -> Response {
        let status = if self.new {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        let mut response = StartedRun::new(self.run, self.callback_secret).respond(status);
        if let Ok(location) = HeaderValue::from_str(&self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

impl Answer for Begun {
    fn describe(operation: &mut Operation<'_>) {
        Json::<StartedRun<ShownRun>>::describe(operation);
        With::<201, StartedRun<ShownRun>>::describe(operation);
        for status in [200, 201] {
            operation.header(status, "Location", "Address of the run.");
        }
    }
}

/// `POST /v1/workflows/{workflow}/runs`: 201 with a new run, 200 with the one that was started with the same key.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Key(header): Key,
    Members(wanted): Members<NewWorkflowRun>,
) -> Result<Begun, ApiError> {
    let start = StartRun {
        version: wanted.version,
        inputs: wanted.inputs,
        key: key_of(wanted.idempotency_key, header)?,
        callback: wanted.callback.map(|Text(url)| url),
    };
    let started = app.engine().run_workflow(&principal, &name, start).await?;
    let id = started.id;
    let wait = wanted.wait_s.map_or(Duration::ZERO, |Wait(wait)| wait);
    Ok(Begun {
        location: app.url(&format!("/v1/workflow-runs/{id}")),
        new: started.is_new,
        callback_secret: started.callback_secret,
        run: app
            .engine()
            .workflow_run(&principal, &id, wait, RunUntil::Ended)
            .await?
            .into(),
    })
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkflowRunPage")]
pub(crate) struct Runs {
    runs: Vec<ListedWorkflowRun>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// Which runs are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only runs of this workflow.
    workflow: Option<String>,
    /// Only runs with this status.
    status: Option<Status>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Runs of a page; default 1,000.
    limit: Option<Limit>,
}

/// Its cursors.
const LIST: char = 'r';

/// `GET /v1/workflow-runs`: the runs of the caller's tenant, the latest first.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Json<Runs>, ApiError> {
    let after = wanted.cursor.map(|Cursor(key)| {
        let (created, id) = key.split_once(' ')?;
        Some((created.parse().ok()?, id.to_owned()))
    });
    let after = match after {
        Some(None) => {
            return Err(ApiError::bad_field(
                "cursor",
                "is not the `next` of a page of this list",
            ));
        }
        after => after.flatten(),
    };
    let most = limit(wanted.limit, PAGE_MOST);
    let filter = RunFilter {
        workflow: wanted.workflow,
        status: wanted.status.map(RunStatus::from),
        after,
        limit: most + 1,
    };
    let mut runs = app.engine().workflow_runs(&principal, filter).await?;
    let more = runs.len() > most;
    runs.truncate(most);
    let last = runs.last().filter(|_| more);
    Ok(Json(Runs {
        next: last.map(|last| Cursor::<LIST>::write(&format!("{} {}", last.created_micros, last.id))),
        runs: runs.into_iter().map(ListedWorkflowRun::from).collect(),
    }))
}

/// How long an answer waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patience {
    /// Seconds that the response waits for the end; default 0.
    wait_s: Option<Wait<WAIT_MOST>>,
}

/// `GET /v1/workflow-runs/{id}?wait_s=`: a run with its steps, when it has ended or after that time.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(Patience { wait_s }): Parameters<Patience>,
) -> Result<Json<ShownRun>, ApiError> {
    let wait = wait_s.map_or(Duration::ZERO, |Wait(wait)| wait);
    Ok(Json(
        app.engine()
            .workflow_run(&principal, &id, wait, RunUntil::Ended)
            .await?
            .into(),
    ))
}

/// `POST /v1/workflow-runs/{id}/cancel`: 200 with the run, which ends soon; one that has ended stays as it is.
pub(crate) async fn cancel(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Json<ShownRun>, ApiError> {
    Ok(Json(
        app.engine().cancel_workflow_run(&principal, &id).await?.into(),
    ))
}

/// Which item.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfItem {
    /// Of a step with a list, the item whose inputs and outputs are shown; default 0.
    item: Option<Whole<0, ITEM_MOST>>,
}

/// `GET /v1/workflow-runs/{id}/steps/{step}?item=`: a step with all its attempts, and its inputs and outputs.
pub(crate) async fn step(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, step)): Path<(String, String)>,
    Parameters(OfItem { item }): Parameters<OfItem>,
) -> Result<Json<ShownStep>, ApiError> {
    let item = item.map_or(0, |Whole(item)| u32::try_from(item).unwrap_or(u32::MAX - 1));
    let found = app.engine().workflow_step(&principal, &id, &step, item).await?;
    Ok(Json(found.into()))
}

/// The answer of a person.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepAnswer")]
pub(crate) struct Given {
    /// One of the options.
    value: Text<1, MAX_STEP_ANSWER_BYTES>,
}

/// `POST /v1/workflow-runs/{id}/steps/{step}/answer`: 200 with the run once the answer is written, 409 if the step does not wait.
pub(crate) async fn answer(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, step)): Path<(String, String)>,
    Members(Given { value: Text(value) }): Members<Given>,
) -> Result<Json<ShownRun>, ApiError> {
    let answered = app.engine().answer_workflow_step(&principal, &id, &step, value);
    Ok(Json(answered.await?.into()))
}
