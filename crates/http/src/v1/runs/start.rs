//! `POST /v1/skills/{skill}/runs`, `POST /v1/workflows/{workflow}/runs`, `POST /v1/schedules/{schedule}/runs`: starts of runs.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{Principal, ResourceRef, name_of_run};
use himalia_runs::{
    AskedRun, BegunRun, CallbackSecret, MAX_CALLBACK_URL, Overlap, RunSkill, RunUntil, StartRun, StartedRun,
    TriggerKind, id_of_run,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Run;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};
use crate::relay::{RequestHead, Target};
use crate::v1::answers::JsonWithStatus;
use crate::v1::executions::WAIT_MOST;
use crate::v1::input::{Client, Key, Members, Text, Wait, Whole, key_of};

/// Time that the response to a new run of a skill waits by default.
const WAIT: Duration = Duration::from_mins(5);
/// Seconds of a run.
pub(crate) const TIMEOUT_MOST: u64 = 86_400;

/// A run of a skill to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSkillRun {
    /// Default: the latest one.
    version: Option<String>,
    /// The template of its session. Default: the template of the skill, or the default kernelspec.
    template: Option<String>,
    /// The arguments of `main`, which fit the schema.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// Seconds that it may take, if that is less than the skill says.
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    /// Seconds that the response waits for the end; default 300. The run continues afterwards.
    wait_s: Option<Wait<WAIT_MOST>>,
    /// The URL that its result is posted to.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

/// A run of a workflow to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewWorkflowRun {
    /// Default: the latest one.
    version: Option<String>,
    /// The inputs, which fit the schema of the workflow.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// A repeated request with the same key returns the same run. A different request with the key gets 422.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
    /// Seconds that the response waits for the end; default 0. The run continues afterwards.
    wait_s: Option<Wait<WAIT_MOST>>,
    /// The URL that its result is posted to.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

/// A run of a schedule that is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewScheduleRun {
    /// A repeated request with the same key returns the same run while it is listed. A different request with the key gets 422.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
    /// The handling of this run while an earlier one is in progress: `skip` is 409. Default: as the schedule has it for due times.
    overlap: Option<Overlap>,
}

/// The body: a run that was started, with the secret of its callback.
#[derive(Debug, Serialize, JsonSchema)]
struct StartedBody {
    /// With which its result is signed that is posted to `callback`. It is in responses to its start alone; left out without a callback.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_secret: Option<String>,
    #[serde(flatten)]
    run: Run,
}

/// A run that was started: 202 while it continues, 200 when it has ended.
#[derive(Debug)]
pub(crate) struct StartedRunResponse {
    location: String,
    /// It was there already, under the same idempotency key.
    repeated: bool,
    body: StartedBody,
}

impl StartedRunResponse {
    /// After this time, or the end of the run.
    async fn after(
        app: &App,
        principal: &Principal,
        started: StartedRun,
        wait: Duration,
    ) -> Result<Self, ApiError> {
        let StartedRun {
            id,
            is_new,
            callback_secret,
        } = started;
        let run = app.runs().run(principal, &id, wait, RunUntil::Ended).await?;
        Ok(Self {
            location: app.url(&format!("/v1/runs/{id}")),
            repeated: !is_new,
            body: StartedBody {
                callback_secret: callback_secret.map(|CallbackSecret(secret)| secret),
                run: run.into(),
            },
        })
    }
}

/// A run of a skill with an idempotency key is served where an earlier request with the same key has started it.
pub(crate) fn target(request: &RequestHead<'_>) -> Target {
    let key = request.idempotency_key();
    key.map_or(Target::Here, |key| {
        Target::OwnerOrNew(ResourceRef::Run(name_of_run(request.principal, key)))
    })
}

impl IntoResponse for StartedRunResponse {
    fn into_response(self) -> Response {
        let status = if self.body.run.is_over() {
            StatusCode::OK
        } else {
            StatusCode::ACCEPTED
        };
        let has_secret = self.body.callback_secret.is_some();
        let mut response = (status, axum::Json(self.body)).into_response();
        let headers = response.headers_mut();
        if let Ok(location) = HeaderValue::from_str(&self.location) {
            headers.insert(header::LOCATION, location);
        }
        if self.repeated {
            headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
        }
        if has_secret {
            // It is not to be stored on its way.
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        response
    }
}

impl Answer for StartedRunResponse {
    fn describe(operation: &mut Operation<'_>) {
        JsonWithStatus::<200, StartedBody>::describe(operation);
        JsonWithStatus::<202, StartedBody>::describe(operation);
        for status in [200, 202] {
            operation.header(status, "Location", "Address of the run.");
            operation.header(
                status,
                "Idempotency-Replayed",
                "`true` for a run that existed before the request.",
            );
        }
    }
}

/// `POST /v1/skills/{skill}/runs`: 200 when it has ended, 202 after `wait_s`. It is an execution of a new session, which ends with it.
pub(crate) async fn skill(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Client(client): Client,
    Key(header): Key,
    Members(wanted): Members<NewSkillRun>,
) -> Result<StartedRunResponse, ApiError> {
    let run = RunSkill {
        version: wanted.version,
        template: wanted.template,
        inputs: wanted.inputs,
        timeout: wanted
            .timeout_s
            .map(|Whole(seconds)| Duration::from_secs(seconds)),
        client,
        key: header,
        callback: wanted.callback.map(|Text(url)| url),
        ..RunSkill::default()
    };
    let BegunRun {
        id,
        repeated,
        callback_secret,
        ..
    } = app.runs().run_skill(&principal, &name, run).await?;
    let started = StartedRun {
        id: id_of_run(id.kernel.0),
        is_new: !repeated,
        callback_secret,
    };
    let wait = wanted.wait_s.map_or(WAIT, |Wait(wait)| wait);
    StartedRunResponse::after(&app, &principal, started, wait).await
}

/// `POST /v1/workflows/{workflow}/runs`: a new run, or the one that was started with the same key.
pub(crate) async fn workflow(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Key(header): Key,
    Members(wanted): Members<NewWorkflowRun>,
) -> Result<StartedRunResponse, ApiError> {
    let start = StartRun {
        version: wanted.version,
        inputs: wanted.inputs,
        key: key_of(wanted.idempotency_key, header)?,
        callback: wanted.callback.map(|Text(url)| url),
        trigger_run: None,
    };
    let started = app.runs().run_workflow(&principal, &name, start).await?;
    let wait = wanted.wait_s.map_or(Duration::ZERO, |Wait(wait)| wait);
    StartedRunResponse::after(&app, &principal, started, wait).await
}

/// `POST /v1/schedules/{schedule}/runs`: a run now, or the one that was asked for with the same key.
pub(crate) async fn schedule(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
    Key(header): Key,
    Members(wanted): Members<NewScheduleRun>,
) -> Result<StartedRunResponse, ApiError> {
    let asked = AskedRun {
        key: key_of(wanted.idempotency_key, header)?,
        overlap: wanted.overlap,
    };
    let started = app
        .runs()
        .run_trigger(&principal, TriggerKind::Schedule, &text, asked)
        .await?;
    StartedRunResponse::after(&app, &principal, started, Duration::ZERO).await
}
