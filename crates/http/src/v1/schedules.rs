//! `/v1/schedules`: what starts runs of skills and workflows at due times.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use himalia_engine::{
    DeliveriesOf, MAX_CALLBACK_URL, MAX_CRON_BYTES, MAX_TRIGGER_NAME, MissedPolicy, NewTrigger, Overlap,
    RunTarget, Times, TriggerChange, TriggerInfo, TriggerKind, from_micros,
};
use himalia_wire::build::timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answers::{Created, Empty, ShownOnce};
use super::deliveries::{Deliveries, ListedDeliveries, delivery_page};
use super::input::{Cursor, Limit, Members, Parameters, Text, Whole};
use super::runs::ListedRun;
use super::runs::start::TIMEOUT_MOST;
use super::triggers::{target_of, trigger_page};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

const KIND: TriggerKind = TriggerKind::Schedule;

/// A schedule to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSchedule")]
pub(crate) struct Wanted {
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
    /// The template of the sessions of runs of a skill. Default: that of the skill, or the default kernelspec.
    template: Option<String>,
    /// Seconds that a run of a skill may take, if that is less than the skill says.
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    /// What becomes of due times that no gateway saw within a minute; default `run_once`.
    #[serde(default)]
    missed: MissedPolicy,
    /// What becomes of a due time while an earlier run is in progress; default `skip`.
    #[serde(default)]
    overlap: Overlap,
    /// Whether it starts runs; default true.
    enabled: Option<bool>,
    /// Where the result of each run is posted.
    callback: Option<Text<1, MAX_CALLBACK_URL>>,
}

impl From<Wanted> for NewTrigger {
    fn from(wanted: Wanted) -> Self {
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

/// What is to change. Members that are left out stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScheduleChange")]
pub(crate) struct Changed {
    cron: Option<Text<1, MAX_CRON_BYTES>>,
    time_zone: Option<String>,
    target: Option<RunTarget>,
    inputs: Option<Map<String, Value>>,
    /// Empty: that of the skill, or the default kernelspec.
    template: Option<String>,
    timeout_s: Option<Whole<1, TIMEOUT_MOST>>,
    missed: Option<MissedPolicy>,
    overlap: Option<Overlap>,
    enabled: Option<bool>,
}

impl From<Changed> for TriggerChange {
    fn from(changed: Changed) -> Self {
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
    /// Its tenant, or `operator`.
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
    /// Where the result of each run is posted: scheme, host and port. The rest of the URL can be a secret, and is not shown.
    callback: Option<String>,
    /// Why the gateway has switched it off.
    stopped: Option<String>,
    /// When it is due next; null: it is not.
    #[schemars(extend("format" = "date-time"))]
    next: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    created: String,
    /// The latest run.
    last_run: Option<ListedRun>,
}

impl Schedule {
    fn of(info: TriggerInfo) -> Result<Self, ApiError> {
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

pub(crate) fn date(micros: i64) -> String {
    timestamp(from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// A new schedule.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CreatedSchedule")]
pub(crate) struct Made {
    /// With which results are signed that are posted to `callback`. It is shown once.
    callback_secret: Option<String>,
    #[serde(flatten)]
    shown: Schedule,
}

/// `POST /v1/schedules`: 201.
pub(crate) async fn create(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(wanted): Members<Wanted>,
) -> Result<ShownOnce<Created<Made>>, ApiError> {
    let (made, secrets) = app
        .engine()
        .create_trigger(&principal, KIND, wanted.into())
        .await?;
    let path = format!("/v1/schedules/{}", made.id);
    let made = Made {
        callback_secret: secrets.outgoing,
        shown: Schedule::of(made)?,
    };
    Ok(ShownOnce(Created::at(&app, &path, made)))
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SchedulePage")]
pub(crate) struct Schedules {
    schedules: Vec<Schedule>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// Which schedules are listed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Schedules of a page; default 1,000.
    limit: Option<Limit>,
}

/// Its cursors.
const LIST: char = 'd';

/// `GET /v1/schedules`: those of the caller's tenant, for the operator all, by owner and name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<Listed>,
) -> Result<Json<Schedules>, ApiError> {
    let wanted = (wanted.cursor.as_ref(), wanted.limit);
    let (schedules, next) = trigger_page(&app, &principal, KIND, wanted, Schedule::of).await?;
    Ok(Json(Schedules { schedules, next }))
}

/// `GET /v1/schedules/{schedule}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
) -> Result<Json<Schedule>, ApiError> {
    let found = app.engine().trigger(&principal, KIND, &text).await?;
    Ok(Json(Schedule::of(found)?))
}

/// `PATCH /v1/schedules/{schedule}`.
pub(crate) async fn change(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
    Members(changed): Members<Changed>,
) -> Result<Json<Schedule>, ApiError> {
    let engine = app.engine();
    let done = engine
        .change_trigger(&principal, KIND, &text, changed.into())
        .await?;
    Ok(Json(Schedule::of(done)?))
}

/// `DELETE /v1/schedules/{schedule}`: 204. What runs continues.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
) -> Result<Empty<204>, ApiError> {
    app.engine().delete_trigger(&principal, KIND, &text).await?;
    Ok(Empty)
}

/// `GET /v1/schedules/{schedule}/deliveries`: of results, the latest first.
pub(crate) async fn deliveries(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(text): Path<String>,
    Parameters(wanted): Parameters<ListedDeliveries>,
) -> Result<Json<Deliveries>, ApiError> {
    let all = app
        .engine()
        .deliveries(&principal, DeliveriesOf::Trigger(KIND), &text)
        .await?;
    Ok(Json(delivery_page(all, &wanted)))
}
