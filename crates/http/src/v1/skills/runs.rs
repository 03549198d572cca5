//! `/v1/skills/{skill}/runs`, `/v1/executions/{id}/skill`: runs of skills.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{
    BegunRun, CallbackSecret, ExecutionId, ExecutionResult, MAX_CALLBACK_URL, Principal, RunSkill, SkillRun,
    SkillRunStatus, Until, Violation,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::openapi::{Answer, Operation};
use crate::v1::answers::{StartedRun, With};
use crate::v1::executions::{WAIT_MOST, execution_id, waited};
use crate::v1::input::{Client, Key, Members, Parameters, Text, Wait, Whole};

/// How long the response to a new run waits by default.
const WAIT: Duration = Duration::from_mins(5);
/// Seconds of a run.
pub(crate) const TIMEOUT_MOST: u64 = 86_400;

/// A run of a skill.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSkillRun {
    /// Default: the latest one.
    version: Option<String>,
    /// The template of its session. Default: that of the skill, or the default kernelspec.
    template: Option<String>,
    /// The arguments of `main`, which fit the schema.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// Seconds that it may take, if that is less than the skill says.
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    /// Seconds that the response waits for the end; default 300. The run continues afterwards.
    wait_s: Option<Wait<WAIT_MOST>>,
    /// Where its result is posted.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum RunStatus {
    /// It waits or runs.
    Running,
    /// It has returned outputs that fit the schema.
    Succeeded,
    /// It has not: `violations`, the error of the execution, or `reason` say why.
    Failed,
}

/// What is wrong with a part of the outputs.
#[derive(Debug, Serialize, JsonSchema)]
struct SchemaViolation {
    /// Where, as a JSON Pointer. Empty: the outputs as a whole.
    path: String,
    /// The keyword of the schema.
    rule: String,
    /// What is expected.
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

/// Which skill runs.
#[derive(Debug, Serialize, JsonSchema)]
struct RunOf {
    name: String,
    version: String,
    /// The address of its content.
    digest: String,
}

/// A run of a skill.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SkillRun")]
pub(crate) struct ShownRun {
    /// The id of the execution that it is.
    #[schemars(with = "String")]
    id: ExecutionId,
    skill: RunOf,
    status: RunStatus,
    /// What `main` returned. Null until then.
    outputs: Option<Value>,
    /// What is wrong with the outputs.
    violations: Vec<SchemaViolation>,
    /// Why it failed, if neither `violations` nor an exception of its code explain it.
    reason: Option<&'static str>,
    /// The execution, with its text and its error.
    execution: ExecutionResult,
}

impl From<SkillRun> for ShownRun {
    fn from(run: SkillRun) -> Self {
        let text = |member: &str| {
            run.skill
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            id: run.execution.id,
            reason: run.reason(),
            skill: RunOf {
                name: text("name"),
                version: text("version"),
                digest: text("digest"),
            },
            status: match run.status {
                SkillRunStatus::Running => RunStatus::Running,
                SkillRunStatus::Succeeded => RunStatus::Succeeded,
                SkillRunStatus::Failed => RunStatus::Failed,
            },
            outputs: run.outputs,
            violations: run.violations.into_iter().map(SchemaViolation::from).collect(),
            execution: run.execution,
        }
    }
}

/// A run that was begun, and where it is.
#[derive(Debug)]
pub(crate) struct Begun {
    location: String,
    /// It was there already, under the same idempotency key.
    repeated: bool,
    callback_secret: Option<CallbackSecret>,
    run: ShownRun,
}

impl IntoResponse for Begun {
    fn into_response(self) -> Response {
        let status = match self.run.status {
            RunStatus::Running => StatusCode::ACCEPTED,
            RunStatus::Succeeded | RunStatus::Failed => StatusCode::OK,
        };
        let mut response = StartedRun::new(self.run, self.callback_secret).respond(status);
        if let Ok(location) = HeaderValue::from_str(&self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        if self.repeated {
            let yes = HeaderValue::from_static("true");
            response.headers_mut().insert("idempotency-replayed", yes);
        }
        response
    }
}

impl Answer for Begun {
    fn describe(operation: &mut Operation<'_>) {
        Json::<StartedRun<ShownRun>>::describe(operation);
        With::<202, StartedRun<ShownRun>>::describe(operation);
        for status in [200, 202] {
            operation.header(status, "Location", "Address of the run.");
            operation.header(
                status,
                "Idempotency-Replayed",
                "`true` for a run that was there already.",
            );
        }
    }
}

/// `POST /v1/skills/{skill}/runs`: 200 when it has ended, 202 after `wait_s`. It is an execution of a new session, which ends with it.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Client(client): Client,
    Key(header): Key,
    Members(wanted): Members<NewSkillRun>,
) -> Result<Begun, ApiError> {
    let run = RunSkill {
        version: wanted.version,
        template: wanted.template,
        inputs: wanted.inputs,
        timeout: wanted
            .timeout_s
            .map(|Whole(seconds)| Duration::from_secs(seconds)),
        client,
        key: header,
        step: None,
        callback: wanted.callback.map(|Text(url)| url),
    };
    let BegunRun {
        id,
        repeated,
        callback_secret,
        ..
    } = app.engine().run_skill(&principal, &name, run).await?;
    let wait = wanted.wait_s.map_or(WAIT, |Wait(wait)| wait);
    Ok(Begun {
        location: app.url(&format!("/v1/executions/{id}/skill")),
        repeated,
        callback_secret,
        run: after(&app, &principal, id, wait).await?,
    })
}

/// How long an answer waits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patience {
    /// Seconds that the response waits for the end; default 0.
    wait_s: Option<Wait<WAIT_MOST>>,
}

/// `GET /v1/executions/{id}/skill?wait_s=`: the run of a skill that an execution is.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(Patience { wait_s }): Parameters<Patience>,
) -> Result<Json<ShownRun>, ApiError> {
    let id = execution_id(&id)?;
    let wait = wait_s.map_or(Duration::ZERO, |Wait(wait)| wait);
    Ok(Json(after(&app, &principal, id, wait).await?))
}

async fn after(
    app: &App,
    principal: &Principal,
    id: ExecutionId,
    wait: Duration,
) -> Result<ShownRun, ApiError> {
    if !wait.is_zero() {
        let mut feed = app.engine().watch_execution(principal, id).await?;
        waited(app, &mut feed, Until::Settled, wait).await?;
    }
    Ok(app.engine().skill_run(principal, id).await?.into())
}
