//! `/v1/runs`: runs of skills and workflows, whatever has started them.

pub(crate) mod events;
pub(crate) mod pages;
pub(crate) mod start;
pub(crate) mod steps;

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::Uri;
use himalia_engine::{ExecutionId, ExecutionResult, SessionId};
use himalia_runs::{
    MAX_RUN_PAGE, RunError, RunFilter, RunInfo, RunKind, RunOrigin, RunOriginKind, RunPlace, RunState,
    RunUntil, RunView, TriggerKind, Violation,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::steps::ShownStep;
use super::dates::date;
use super::input::{Cursor, Parameters, Wait, Whole, limit, parameters};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::v1::executions::WAIT_MOST;

/// A run, as lists have it.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct ListedRun {
    /// `run_` and 32 hexadecimal digits.
    id: String,
    kind: RunKind,
    /// The name of the skill or workflow.
    name: String,
    /// The version that runs. Null until the run begins.
    version: Option<String>,
    /// The address of the content of that version, if it is known.
    digest: Option<String>,
    status: RunState,
    /// The reason why the run failed, did not begin, or waits.
    error: Option<RunError>,
    origin: RunOrigin,
    /// The principal whose rights the run has.
    started_by: String,
    /// The principal who asked a schedule for the run, if it was not due.
    asked_by: Option<String>,
    /// The principal who cancelled the run of a workflow.
    cancelled_by: Option<String>,
    /// Due times before this one that were missed, at most 1,000. Null if no schedule has started the run.
    missed_before: Option<u32>,
    /// The session that a skill runs in.
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
    /// The execution that a run of a skill is.
    #[schemars(with = "Option<String>")]
    execution: Option<ExecutionId>,
    /// When the run was asked for, or due.
    #[schemars(extend("format" = "date-time"))]
    created: String,
    #[schemars(extend("format" = "date-time"))]
    started: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    ended: Option<String>,
}

impl From<RunInfo> for ListedRun {
    fn from(info: RunInfo) -> Self {
        Self {
            id: info.id,
            kind: info.kind,
            name: info.name,
            version: info.version,
            digest: info.digest,
            status: info.status,
            error: info.error,
            origin: info.origin,
            started_by: info.started_by,
            asked_by: info.asked_by,
            cancelled_by: info.cancelled_by,
            missed_before: info.missed_before,
            session: info.session,
            execution: info.execution,
            created: date(info.created_micros),
            started: info.started_micros.map(date),
            ended: info.ended_micros.map(date),
        }
    }
}

/// A violation of the schema by a part of the outputs.
#[derive(Debug, Serialize, JsonSchema)]
struct SchemaViolation {
    /// The place, as a JSON Pointer. Empty: the outputs as a whole.
    path: String,
    /// The keyword of the schema.
    rule: String,
    /// The expected value.
    text: String,
}

impl From<Violation> for SchemaViolation {
    fn from(wrong: Violation) -> Self {
        Self {
            path: wrong.path,
            rule: wrong.rule,
            text: wrong.text,
        }
    }
}

/// A run with its inputs and outputs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    #[serde(flatten)]
    listed: ListedRun,
    /// The inputs of a workflow. Null for a skill.
    inputs: Option<Value>,
    /// The returned outputs. Null until then. Once the log of a skill that a schedule or a webhook has started is gone, up to 16 KiB.
    outputs: Option<Value>,
    /// The violations of the schema by the outputs of a skill.
    violations: Vec<SchemaViolation>,
    /// The execution of a skill, with its text and its error.
    result: Option<ExecutionResult>,
    /// The steps of a workflow, in its order.
    steps: Vec<ShownStep>,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.listed.status.is_over()
    }
}

impl From<RunView> for Run {
    fn from(view: RunView) -> Self {
        Self {
            listed: view.info.into(),
            inputs: view.inputs,
            outputs: view.outputs,
            violations: view.violations.into_iter().map(SchemaViolation::from).collect(),
            result: view.result,
            steps: view.steps.into_iter().map(ShownStep::from).collect(),
        }
    }
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunPage {
    runs: Vec<ListedRun>,
    /// The cursor of the next page; null at the end. A page may have fewer runs than `limit`, and a next one.
    next: Option<String>,
    /// The replicas whose runs of skills are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// A query for runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRunsQuery {
    /// Only runs of this kind.
    kind: Option<RunKind>,
    /// Only runs of this skill.
    skill: Option<String>,
    /// Only runs of this workflow.
    workflow: Option<String>,
    /// Only runs that this schedule has asked for, by its id or name.
    schedule: Option<String>,
    /// Only runs that this webhook has asked for, by its id or name.
    webhook: Option<String>,
    /// Only runs with this status.
    status: Option<RunState>,
    /// Only runs in the session with this id, and runs that its code has started.
    #[schemars(with = "Option<String>")]
    session: Option<SessionId>,
    /// Only runs that this has started.
    origin: Option<RunOriginKind>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Runs of a page; default 100.
    limit: Option<Whole<1, PAGE>>,
}

/// The letter of cursors of runs.
const LIST: char = 'r';
/// Runs of a page: by default, and at most.
const PAGE: u64 = MAX_RUN_PAGE as u64;

/// The cursor after a place.
pub(crate) fn next_of(place: &RunPlace) -> String {
    Cursor::<LIST>::write(&format!("{} {}", place.created_micros, place.id))
}

/// The place of the `next` of a page.
pub(crate) fn place_of_next(next: &str) -> Option<RunPlace> {
    place_of(&Cursor::<LIST>::read(next)?.0)
}

/// The place of a cursor.
fn place_of(key: &str) -> Option<RunPlace> {
    let (created, id) = key.split_once(' ')?;
    Some(RunPlace {
        created_micros: created.parse().ok()?,
        id: id.to_owned(),
    })
}

/// The number of runs that a query of the list wants.
pub(crate) fn page_size(uri: &Uri) -> usize {
    let wanted = parameters::<ListRunsQuery>(uri).ok();
    limit(wanted.and_then(|wanted| wanted.limit), PAGE)
}

/// Refuses a request that has both of two filters.
fn one_of<T>(
    (field, one): (&'static str, Option<T>),
    (name, other): (&'static str, Option<T>),
) -> Result<Option<(&'static str, T)>, ApiError> {
    match (one, other) {
        (Some(_), Some(_)) => Err(ApiError::bad_field(
            field,
            format!("cannot be given with `{name}`; leave one out"),
        )),
        (Some(one), None) => Ok(Some((field, one))),
        (None, other) => Ok(other.map(|other| (name, other))),
    }
}

impl ListRunsQuery {
    fn filter(self) -> Result<RunFilter, ApiError> {
        let target = one_of(("skill", self.skill), ("workflow", self.workflow))?;
        let trigger = one_of(("schedule", self.schedule), ("webhook", self.webhook))?;
        let of_target = target.as_ref().map(|(field, _)| match *field {
            "skill" => RunKind::Skill,
            _ => RunKind::Workflow,
        });
        if let (Some(kind), Some((field, _))) = (self.kind, &target)
            && of_target != Some(kind)
        {
            return Err(ApiError::bad_field(
                "kind",
                format!("cannot be that with `{field}`; leave it out"),
            ));
        }
        let after = self.cursor.map(|Cursor(key)| {
            let place = place_of(&key);
            place.ok_or_else(|| ApiError::bad_field("cursor", "is not the `next` of a page of this list"))
        });
        Ok(RunFilter {
            kind: self.kind.or(of_target),
            name: target.map(|(_, name)| name),
            trigger: trigger.map(|(field, text)| {
                let kind = match field {
                    "schedule" => TriggerKind::Schedule,
                    _ => TriggerKind::Webhook,
                };
                (kind, text)
            }),
            status: self.status,
            session: self.session,
            origin: self.origin,
            after: after.transpose()?,
            limit: limit(self.limit, PAGE),
        })
    }
}

/// `GET /v1/runs`: the runs of the caller's tenant, the latest first.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListRunsQuery>,
) -> Result<Json<RunPage>, ApiError> {
    let page = app.runs().runs(&principal, wanted.filter()?).await?;
    Ok(Json(RunPage {
        runs: page.runs.into_iter().map(ListedRun::from).collect(),
        next: page.next.as_ref().map(next_of),
        unanswered: Vec::new(),
    }))
}

/// The time that a response waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// Seconds that the response waits for the end; default 0.
    wait_s: Option<Wait<WAIT_MOST>>,
}

/// `GET /v1/runs/{id}?wait_s=`: a run, when it has ended or after that time.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(WaitQuery { wait_s }): Parameters<WaitQuery>,
) -> Result<Json<Run>, ApiError> {
    let wait = wait_s.map_or(Duration::ZERO, |Wait(wait)| wait);
    let run = app.runs().run(&principal, &id, wait, RunUntil::Ended).await?;
    Ok(Json(run.into()))
}

/// `POST /v1/runs/{id}/cancel`: 200 with the run, which ends soon; one that has ended stays as it is.
pub(crate) async fn cancel(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<Json<Run>, ApiError> {
    Ok(Json(app.runs().cancel_run(&principal, &id).await?.into()))
}
