//! `/v1/deliveries`, `/v1/runs/{run}/deliveries`: results of runs that are posted to callbacks.

use axum::Json;
use axum::extract::{Path, State};
use himalia_runs::{DeliveriesOf, DeliveryAttempt, DeliveryInfo, DeliveryState};
use schemars::JsonSchema;
use serde::Serialize;

use super::answers::JsonWithStatus;
use super::dates::date;
use super::input::{ListQuery, Parameters};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// An attempt of a delivery.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeliveryAttempt")]
pub(crate) struct Attempt {
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// The status of the response.
    status: Option<u16>,
    /// The reason why there was none.
    error: Option<String>,
}

impl From<DeliveryAttempt> for Attempt {
    fn from(attempt: DeliveryAttempt) -> Self {
        Self {
            at: date(attempt.at_micros),
            status: attempt.status,
            error: attempt.error,
        }
    }
}

/// A delivery of the result of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Delivery {
    #[schemars(extend("format" = "uuid"))]
    id: String,
    /// The run that it tells of, `run_…`.
    run: String,
    /// The target: scheme, host and port. The rest of the URL can be a secret, and is not shown.
    url: String,
    state: DeliveryState,
    /// The latest 16 attempts, the latest one last.
    attempts: Vec<Attempt>,
    /// Time of the next attempt. Null: it has ended.
    #[schemars(extend("format" = "date-time"))]
    next_attempt: Option<String>,
    #[schemars(extend("format" = "date-time"))]
    created: String,
}

impl From<DeliveryInfo> for Delivery {
    fn from(info: DeliveryInfo) -> Self {
        Self {
            id: info.id.to_string(),
            run: info.run,
            url: info.url,
            state: info.state,
            attempts: info.attempts.into_iter().map(Attempt::from).collect(),
            next_attempt: info.next_micros.map(date),
            created: date(info.created_micros),
        }
    }
}

/// A page of deliveries.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeliveryPage {
    deliveries: Vec<Delivery>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
pub(crate) const DELIVERIES: char = 'i';

/// A page of deliveries, the latest first.
pub(crate) fn delivery_page(mut all: Vec<DeliveryInfo>, wanted: &ListQuery<DELIVERIES>) -> DeliveryPage {
    let key = |one: &DeliveryInfo| format!("{:020} {}", i64::MAX - one.created_micros, one.id);
    all.sort_by_cached_key(key);
    let (found, next) = wanted.page(all, key);
    DeliveryPage {
        deliveries: found.into_iter().map(Delivery::from).collect(),
        next,
    }
}

/// `GET /v1/runs/{run}/deliveries`: of the result of a run with a callback, its own or that of its schedule or webhook.
pub(crate) async fn of_run(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(run): Path<String>,
    Parameters(wanted): Parameters<ListQuery<DELIVERIES>>,
) -> Result<Json<DeliveryPage>, ApiError> {
    let all = app.runs().deliveries(&principal, DeliveriesOf::Run, &run).await?;
    Ok(Json(delivery_page(all, &wanted)))
}

/// `POST /v1/deliveries/{delivery}/retry`: 202, it is tried again now.
pub(crate) async fn retry(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> Result<JsonWithStatus<202, Delivery>, ApiError> {
    Ok(JsonWithStatus(
        app.runs().redeliver(&principal, &id).await?.into(),
    ))
}
