//! `/v1/schedules`: what starts runs of skills and workflows at due times.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use himalia_runs::{
    MAX_CALLBACK_URL, MAX_CRON_BYTES, MAX_TRIGGER_NAME, MissedPolicy, NewTrigger, Overlap, RunTarget, Times,
    TriggerChange, TriggerInfo, TriggerKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answers::{CreatedResponse, ShownOnce};
use super::dates::date;
use super::input::{ListQuery, Members, Parameters, Text, Whole};
use super::runs::ListedRun;
use super::runs::start::TIMEOUT_MOST;
use super::triggers::{TriggerView, target_of, trigger_page};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A schedule to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSchedule")]
pub(crate) struct CreateScheduleRequest {
    /// 1 to 64 lower-case letters, digits and hyphens; one of the tenant.
    #[schemars(extend("pattern" = "^[a-z0-9-]+$", "maxLength" = MAX_TRIGGER_NAME))]
    name: String,
    /// When it is due: minute, hour, day of the month, month and weekday, with a second before them if need be.
    cron: Text<1, MAX_CRON_BYTES>,
    /// The time zone of `cron`, by its name in the IANA database; default `UTC`.
    time_zone: Option<String>,
    /// A skill or a workflow.
    target: RunTarget,
    /// The inputs of each run, which fit the schema of the target.
    #[serde(default)]
    inputs: Map<String, Value>,
    /// The template of the sessions of runs of a skill. Default: the template of the skill, or the default kernelspec.
    template: Option<String>,
    /// Seconds that a run of a skill may take, if that is less than the skill says.
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    /// The handling of due times that no gateway saw within a minute; default `run_once`.
    #[serde(default)]
    missed: MissedPolicy,
    /// The handling of a due time while an earlier run is in progress; default `skip`.
    #[serde(default)]
    overlap: Overlap,
    /// If true, it starts runs; default true.
    enabled: Option<bool>,
    /// The URL that the result of each run is posted to.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

impl From<CreateScheduleRequest> for NewTrigger {
    fn from(wanted: CreateScheduleRequest) -> Self {
        Self {
            name: wanted.name,
            target: Some(wanted.target),
            inputs: wanted.inputs,
            template: wanted.template,
            timeout: wanted.timeout_s.map(|Whole(time)| Duration::from_secs(time)),
            times: Some(Times {
                cron: wanted.cron.0,
                time_zone: wanted.time_zone.unwrap_or_else(|| "UTC".to_owned()),
                missed: wanted.missed,
                overlap: wanted.overlap,
            }),
            enabled: wanted.enabled.unwrap_or(true),
            callback: wanted.callback.map(|Text(url)| url),
        }
    }
}

/// The changes. Members that are left out stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleChange")]
pub(crate) struct ChangeScheduleRequest {
    cron: Option<Text<1, MAX_CRON_BYTES>>,
    time_zone: Option<String>,
    target: Option<RunTarget>,
    inputs: Option<Map<String, Value>>,
    /// Empty: the template of the skill, or the default kernelspec.
    template: Option<String>,
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    missed: Option<MissedPolicy>,
    overlap: Option<Overlap>,
    enabled: Option<bool>,
}

impl From<ChangeScheduleRequest> for TriggerChange {
    fn from(changed: ChangeScheduleRequest) -> Self {
        Self {
            target: changed.target,
            inputs: changed.inputs,
            template: changed.template,
            timeout: changed.timeout_s.map(|Whole(time)| Duration::from_secs(time)),
            cron: changed.cron.map(|Text(cron)| cron),
            time_zone: changed.time_zone,
            missed: changed.missed,
            overlap: changed.overlap,
            enabled: changed.enabled,
        }
    }
}

/// A schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Schedule {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    name: String,
    /// The tenant of its owner, or `operator`.
    owner: String,
    /// As whom runs are started.
    caller: String,
    cron: String,
    time_zone: String,
    target: RunTarget,
    inputs: Map<String, Value>,
    template: Option<String>,
    timeout_s: Option<u64>,
    missed: MissedPolicy,
    overlap: Overlap,
    enabled: bool,
    /// The target of results: scheme, host and port. The rest of the URL can be a secret, and is not shown.
    callback: Option<String>,
    /// The reason why the gateway has switched it off.
    stopped: Option<String>,
    /// When it is due next; null: it is not.
    #[schemars(extend("format" = "date-time"))]
    next: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// The latest run.
    last_run: Option<ListedRun>,
}

impl TriggerView for Schedule {
    const KIND: TriggerKind = TriggerKind::Schedule;

    fn of(_: &App, info: TriggerInfo) -> Result<Self, ApiError> {
        let target = target_of(&info)?;
        let times = info.times.unwrap_or_else(|| Times {
            cron: String::new(),
            time_zone: String::new(),
            missed: MissedPolicy::default(),
            overlap: Overlap::default(),
        });
        Ok(Self {
            id: info.id.to_string(),
            name: info.name,
            owner: info.owner,
            caller: info.caller,
            cron: times.cron,
            time_zone: times.time_zone,
            target,
            inputs: info.inputs,
            template: info.template,
            timeout_s: info.timeout_s,
            missed: times.missed,
            overlap: times.overlap,
            enabled: info.enabled,
            callback: info.callback,
            stopped: info.stopped,
            next: info.next_micros.map(date),
            created: date(info.created_micros),
            last_run: info.last_run.map(ListedRun::from),
        })
    }
}

/// A new schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedSchedule {
    /// Secret that signs results posted to `callback`. It is shown once.
    callback_secret: Option<String>,
    #[serde(flatten)]
    shown: Schedule,
}

/// `POST /v1/schedules`: 201.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(wanted): Members<CreateScheduleRequest>,
) -> Result<ShownOnce<CreatedResponse<CreatedSchedule>>, ApiError> {
    let (made, secrets) = app
        .runs()
        .create_trigger(&principal, Schedule::KIND, wanted.into())
        .await?;
    let path = format!("/v1/schedules/{}", made.id);
    let made = CreatedSchedule {
        callback_secret: secrets.outgoing,
        shown: Schedule::of(&app, made)?,
    };
    Ok(ShownOnce(CreatedResponse::at(&app, &path, made)))
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SchedulePage {
    schedules: Vec<Schedule>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'd';

/// `GET /v1/schedules`: those of the caller's tenant, for the operator all, by owner and name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<Json<SchedulePage>, ApiError> {
    let (schedules, next) = trigger_page(&app, &principal, &wanted).await?;
    Ok(Json(SchedulePage { schedules, next }))
}
